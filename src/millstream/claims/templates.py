"""The permissions of a scoped user: the template of its signing key, filled with what user and account say.

    {{name()}}  {{subject()}}  {{tag(x)}}  {{account-name()}}  {{account-subject()}}  {{account-tag(x)}}

A tag may have several values; the subject is then listed once for each, and once for each combination if it
has several such tags.  An allowed subject that comes out invalid is left out, a denied one refuses the user;
if nothing of an `allow` is left, everything is denied.
"""

import itertools
import math
import re
from typing import Final

from msgspec.structs import replace

from millstream.claims.token import ClaimsError
from millstream.claims.types import AccountClaims, SubjectClaims, UserClaims, UserLimits
from millstream.subjects.tokens import valid_subject

_FIELD: Final = re.compile(r"\{\{([^}]+)\}\}")
_MOST_SUBJECTS: Final = 4096
_TAGGED: Final = re.compile(r"(tag|account-tag)\((.*)\)", re.IGNORECASE | re.DOTALL)


def filled(template: UserLimits, user: UserClaims, account: AccountClaims) -> UserLimits:
    """Return the template with its fields filled; raise ClaimsError if a denied subject cannot be."""
    fill = _Filling(user, account)
    return replace(template, pub=fill.rules(template.pub), sub=fill.rules(template.sub))


class _Filling:
    def __init__(self, user: UserClaims, account: AccountClaims) -> None:
        self._user = user
        self._account = account

    def rules(self, rules: SubjectClaims) -> SubjectClaims:
        allow = self._entries(rules.allow, must_work=False)
        deny = self._entries(rules.deny, must_work=True)
        if rules.allow and not allow:
            deny = (*deny, ">")
        return SubjectClaims(allow=allow, deny=deny)

    def _entries(self, entries: tuple[str, ...], *, must_work: bool) -> tuple[str, ...]:
        if not any(_FIELD.search(entry) for entry in entries):
            return entries
        result: list[str] = []
        for entry in entries:
            fields = list(dict.fromkeys(_FIELD.findall(entry)))
            values = [self._values(field, must_work=must_work) for field in fields]
            if len(result) + math.prod(map(len, values)) > _MOST_SUBJECTS:
                raise ClaimsError(f"template expansion exceeds limit: {_MOST_SUBJECTS}")
            for chosen in itertools.product(*values):
                subject = _put(entry, dict(zip(fields, chosen, strict=True)))
                if valid_subject(subject.encode("utf-8", "surrogatepass")):
                    result.append(subject)
                elif must_work:
                    raise ClaimsError("generated invalid subject")
        return tuple(result)

    def _values(self, field: str, *, must_work: bool) -> list[str]:
        operation = field.strip()
        match operation.lower():
            case "name()":
                return [self._user.token.name]
            case "subject()":
                return [self._user.token.subject]
            case "account-name()":
                return [self._account.token.name]
            case "account-subject()":
                return [self._user.issuer_account]
        tagged = _TAGGED.fullmatch(operation)
        if tagged is None:
            raise ClaimsError(f'template operation "{operation}" is not defined')
        tags = self._user.token.tags if tagged[1].lower() == "tag" else self._account.token.tags
        prefix = f"{tagged[2].lower()}:"
        values = [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)]
        if not values and must_work:
            raise ClaimsError(f'"{tagged[2]}" is not defined')
        return values or [" "]  # makes an invalid subject, which is left out


def _put(entry: str, values: dict[str, str]) -> str:
    """Return the entry with the value of each field in its place; the same field has the same value."""
    return _FIELD.sub(lambda field: values[field[1]], entry)
