"""How text is read before it is compared. Nothing heavy here: recipes say it too."""

from pydantic import Field

from dragoman.config import Config


class Reading(Config):
    """Left alone, text is read as sacreBLEU does by default."""

    tokenised: bool = Field(False, description="hypotheses and references are tokenised already: BLEU adds nothing")
    lower_case: bool = Field(False, description="BLEU and chrF do not tell A from a; TER never does")
    compounds: bool = Field(False, description="BLEU splits compounds at their hyphens, as the paper did")
