"""The version, where reading it from the installed package would take longer than an agent's host waits.

Above: whoever says what it is. Below: nothing; a test holds it to the package.
"""

VERSION = "0.1.0"
