"""The programs of Palisade, in the directory `bin` of this package."""
