"""What ``tepui`` alone says."""

GREETING = """\
tepui trains deep ensembles whose members are flat and different from each other,
and says when not to trust them.

  tepui compare                     train and compare three methods on digits
  tepui train --out runs/mine       train one ensemble
  tepui evaluate runs/mine          score it on clean, corrupted and unfamiliar data
  tepui predict runs/mine PHOTOS    predict files, with confidence and uncertainty

Own images: tepui train --data ImageFolder --data.path FOLDER
Own table:  tepui train --data Table --data.path FILE.csv --data.target COLUMN
All commands: tepui --help. One of them: tepui train --help. This machine: tepui doctor
"""
