-- Who may ask the cashier: merchants, their API keys, and what each of their business lines may ask for.
-- A key's secret is never stored, only its SHA-256: it is 256 bits of chance, so nothing slower is needed (R-133 for the limits).

CREATE TABLE merchants (
    merchant        text        PRIMARY KEY CHECK (merchant ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$'),
    numbering       bytea       NOT NULL CHECK (octet_length(numbering) = 32),
    rate_per_second integer     NOT NULL DEFAULT 50 CHECK (rate_per_second BETWEEN 1 AND 100000),
    disabled        boolean     NOT NULL DEFAULT false,
    created_at      timestamptz NOT NULL
);
COMMENT ON COLUMN merchants.numbering IS 'secret chance: payment numbers are derived from it, so that a repeated request mints the same';

CREATE TABLE api_keys (
    key_id      text        PRIMARY KEY CHECK (key_id ~ '^[0-9a-f]{16}$'),
    merchant    text        NOT NULL REFERENCES merchants,
    secret_hash bytea       NOT NULL CHECK (octet_length(secret_hash) = 32),
    scopes      text[]      NOT NULL CHECK (
        scopes <@ ARRAY['payments:read', 'payments:write', 'refunds:read', 'refunds:write'] AND cardinality(scopes) > 0
    ),
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);
CREATE INDEX api_keys_of_merchant ON api_keys (merchant);

CREATE TABLE business_lines (
    merchant   text   NOT NULL REFERENCES merchants,
    biz_code   text   NOT NULL CHECK (biz_code ~ '^[A-Z][A-Z0-9]{1,6}$'),
    currency   text   NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    max_amount bigint NOT NULL CHECK (max_amount > 0),
    PRIMARY KEY (merchant, biz_code, currency)
);
COMMENT ON COLUMN business_lines.max_amount IS 'the most of one payment, in minor units of currency';
