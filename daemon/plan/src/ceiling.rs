//! Root-owned bounds that every plan is held against, whoever asks.
