"""An attack on Potluck: damaged files, foreign hands, kills, odd uploads and input. ``make test-attack`` runs it.

Every module here that has a function ``cases() -> list[Case]`` takes part. A case does something to Potluck in a
process of its own and judges what came of it; see :mod:`attack.judging`.
"""
