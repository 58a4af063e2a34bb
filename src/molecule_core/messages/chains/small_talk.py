"""Recognizes texts without content (thanks, ok, an emoji), which two agents could exchange forever. Pure."""

import unicodedata
from collections.abc import Iterator

# 120 characters: longer texts count as content.
_MAX_CHARACTERS = 120

_PHRASES = """
thanks|thank you|thankyou|thx|ty|many thanks|thanks a lot|cheers|much appreciated|appreciated|you too|same to you
youre welcome|you are welcome|welcome|my pleasure|no problem|no worries|np|anytime|any time|dont mention it|sure
ok|okay|k|kk|great|good|perfect|awesome|excellent|nice|cool|alright|all right|got it|understood|noted|roger|ack
acknowledged|confirmed|will do|sounds good|likewise|bye|goodbye|see you|take care|have a nice day|have a great day
hi|hello|hey|yes|yep|yeah|indeed|of course|done
danke|danke dir|danke ihnen|vielen dank|danke schön|dankeschön|bitte|bitte schön|bitte sehr|gerne|gern|gern geschehen
kein problem|keine ursache|alles klar|in ordnung|verstanden|gut|super|prima|passt|tschüss|auf wiedersehen|schönen tag
merci|merci beaucoup|merci bien|de rien|avec plaisir|je vous en prie|je ten prie|pas de problème|pas de souci|daccord
parfait|très bien|entendu|compris|bonne journée|au revoir
gracias|muchas gracias|mil gracias|de nada|no hay de qué|con gusto|un placer|vale|de acuerdo|perfecto|entendido|claro
obrigado|obrigada|muito obrigado|muito obrigada|por nada|disponha|tudo bem|certo|perfeito|entendido|tchau
grazie|grazie mille|molte grazie|prego|di niente|figurati|va bene|perfetto|capito|daccordo|ciao
dank je|dank je wel|dank u|dank u wel|bedankt|graag gedaan|geen probleem|geen dank|prima|oké|begrepen
tack|tack så mycket|varsågod|inga problem|tak|mange tak|selv tak|takk|tusen takk|bare hyggelig|kiitos|ole hyvä
dziękuję|dzięki|dziękuję bardzo|proszę|nie ma sprawy|nie ma za co|dobrze|jasne
спасибо|большое спасибо|спасибо большое|пожалуйста|не за что|хорошо|ладно|понятно|понял|отлично|ок
дякую|щиро дякую|прошу|будь ласка|добре
teşekkürler|teşekkür ederim|çok teşekkürler|rica ederim|bir şey değil|tamam|peki
شكرا|شكرا جزيلا|شكرا لك|عفوا|على الرحب والسعة|حسنا|تمام
תודה|תודה רבה|בבקשה|אין בעיה|בסדר
धन्यवाद|शुक्रिया|आपका स्वागत है|कोई बात नहीं|ठीक है|अच्छा
谢谢|谢谢你|谢谢您|多谢|感谢|不客气|不用谢|没关系|没问题|好的|好|收到|明白|了解|嗯|再见
謝謝|多謝|感謝|不客氣|不用謝|沒關係|沒問題|收到|明白|了解|再見
ありがとう|ありがとうございます|ありがとうございました|どうも|どういたしまして|いえいえ|了解|了解です|了解しました
承知しました|わかりました|はい|お疲れ様です
감사합니다|고맙습니다|고마워요|고마워|천만에요|별말씀을요|네|알겠습니다|좋아요|좋습니다
terima kasih|sama sama|baik|oke|cảm ơn|cám ơn|không có gì
"""
# Words that add no content to such a phrase.
_FILLERS = "so|very|much|again|too|all|everyone|and|well|then|just|oh|ah|a lot|for that|for everything|und|et|y|e|sehr"


def is_small_talk(text: str) -> bool:
    """Return whether a text has no content: only such phrases in any order, or only punctuation and emoji."""
    if len(text) > _MAX_CHARACTERS:
        return False
    covered = {0}  # positions up to which the words are covered by phrases
    position = 0
    recent: list[str] = []
    for position, word in enumerate(_split_words(text), 1):
        if word not in _KNOWN_WORDS:
            return False
        recent = [*recent, word][-_LONGEST_PHRASE:]
        if any(
            position - size in covered and tuple(recent[-size:]) in _PHRASE_TABLE for size in range(1, len(recent) + 1)
        ):
            covered.add(position)
    return position in covered


def _split_words(text: str) -> Iterator[str]:
    """Split a text into words without punctuation and case; CJK characters are words of their own."""
    word = ""
    for character in unicodedata.normalize("NFKC", text).casefold():
        if unicodedata.category(character)[0] in "LNM" and character not in "\ufe0f\u20e3":
            if not _is_cjk(character):
                word += character
                continue
            if word:
                yield word
            word = ""
            yield character
        elif character not in "'’`":
            if word:
                yield word
            word = ""
    if word:
        yield word


def _is_cjk(character: str) -> bool:
    return "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"


_PHRASE_TABLE = frozenset(
    tuple(_split_words(phrase)) for line in (*_PHRASES.split("\n"), _FILLERS) for phrase in line.split("|") if phrase
)
_KNOWN_WORDS = frozenset(word for phrase in _PHRASE_TABLE for word in phrase)
_LONGEST_PHRASE = max(map(len, _PHRASE_TABLE))
