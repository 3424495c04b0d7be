//! Secret tokens that are recognised by their prefix. Pure: no I/O.

/// Known tokens: the prefix, the least number of characters that follow, and which are allowed
/// besides letters and digits.
pub(crate) const TOKENS: &[(&str, usize, &str)] = &[
    ("AKIA", 16, ""),         // AWS access key
    ("ASIA", 16, ""),         // AWS temporary access key
    ("ghp_", 20, ""),         // GitHub personal
    ("gho_", 20, ""),         // GitHub OAuth
    ("ghu_", 20, ""),         // GitHub user-to-server
    ("ghs_", 20, ""),         // GitHub server-to-server
    ("ghr_", 20, ""),         // GitHub refresh
    ("github_pat_", 20, "_"), // GitHub fine-grained
    ("glpat-", 16, "_-"),     // GitLab
    ("sk-", 16, "_-"),        // OpenAI, Anthropic
    ("sk_live_", 16, ""),     // Stripe
    ("rk_live_", 16, ""),     // Stripe, restricted
    ("xoxa-", 10, "-"),       // Slack
    ("xoxb-", 10, "-"),
    ("xoxe-", 10, "-"),
    ("xoxo-", 10, "-"),
    ("xoxp-", 10, "-"),
    ("xoxr-", 10, "-"),
    ("xoxs-", 10, "-"),
    ("xapp-", 10, "-"),
    ("AIza", 30, "_-"),   // Google
    ("ya29.", 20, "_-."), // Google OAuth
    ("npm_", 30, ""),     // npm
    ("hf_", 30, ""),      // Hugging Face
    ("pypi-", 30, "_-"),  // PyPI
    ("dop_v1_", 30, ""),  // DigitalOcean
    ("eyJ", 30, "_-."),   // JSON web token
];
