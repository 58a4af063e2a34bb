// The suite knows no header of its own: every request that its process makes carries the token of the test.
import { Agent, setGlobalDispatcher } from "undici";

const token = process.env.MOLECULE_TEST_TOKEN;

function pairsOf(headers) {
  if (!Array.isArray(headers)) return Object.entries(headers ?? {});
  return headers.filter((_, at) => at % 2 === 0).map((name, at) => [name, headers[at * 2 + 1]]);
}

const withToken = (dispatch) => (options, handler) => {
  const headers = Object.fromEntries([...pairsOf(options.headers), ["authorization", `Bearer ${token}`]]);
  return dispatch({ ...options, headers }, handler);
};

setGlobalDispatcher(new Agent().compose(withToken));
