"""Dead letters: messages that reached max_deliver, or that a pipeline could not write, with the reason.

    for stream in await letter_streams(link): …
    page = await read_letters(link, "DLQ", limit=50)
    outcome = await redrive(link, "DLQ", page.letters[0].seq)

Consumers with the metadata `millstream.dead_letter` write letters.  So do Millstream's pipelines: the jobs
`dead-letters` and `transform`, and the sink's `onBadRow=deadLetter`.  The advisories of a server about such
messages are no letters, and are lost unless a pipeline keeps them.
"""

from millstream.letters.letter import Letter, LetterOrigin, letter_of
from millstream.letters.redrives import Edit, Redriven, RedriveOutcome, redrive, redrive_all
from millstream.letters.streams import LetterPage, LetterStream, letter_streams, read_letter, read_letters

__all__ = [
    "Edit",
    "Letter",
    "LetterOrigin",
    "LetterPage",
    "LetterStream",
    "RedriveOutcome",
    "Redriven",
    "letter_of",
    "letter_streams",
    "read_letter",
    "read_letters",
    "redrive",
    "redrive_all",
]
