-- Bills and statements: what files said, which version of each counts, what came of each line, and what is to be told (R-111 to R-116).
-- Outside of `books`: files cannot be built again from the topics. Nothing here holds a state of money: what is found becomes an event.

CREATE TABLE recon_batches (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source        text        NOT NULL CHECK (length(source) BETWEEN 1 AND 128),
    account       text        NOT NULL CHECK (length(account) BETWEEN 1 AND 128),
    business_date date        NOT NULL,
    zone          text        NOT NULL,
    batch         text        NOT NULL CHECK (length(batch) BETWEEN 1 AND 128),
    version       integer     NOT NULL CHECK (version >= 0),
    channel       text        NOT NULL,
    kind          text        NOT NULL,
    file_name     text        NOT NULL,
    sha256        bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    size          bigint      NOT NULL CHECK (size >= 0),
    parser        text        NOT NULL,
    layout        text        NOT NULL DEFAULT '',
    imported_at   timestamptz NOT NULL,
    state         text        NOT NULL CHECK (state IN ('active', 'superseded', 'rejected')),
    lines         bigint      NOT NULL DEFAULT 0,
    rejected      bigint      NOT NULL DEFAULT 0,
    complete      boolean     NOT NULL DEFAULT false,
    reason        text        NOT NULL DEFAULT '',
    digest        bytea,
    UNIQUE (source, account, business_date, batch, version),
    CHECK ((state = 'rejected') = (version = 0))
);
COMMENT ON TABLE recon_batches IS 'one version of a file (R-111); version 0: it was refused, and nothing of it counts';
COMMENT ON COLUMN recon_batches.layout IS 'the text layout that its parser was given, as JSON, so that the file can be read again as it was';
COMMENT ON COLUMN recon_batches.digest IS 'SHA-256 over the lines as they were read: the same bytes under the same parser give it again';
CREATE UNIQUE INDEX recon_batches_active ON recon_batches (source, account, business_date, batch) WHERE state = 'active';
CREATE INDEX recon_batches_of_day ON recon_batches (channel, business_date);

CREATE TABLE recon_bytes (
    sha256 bytea   NOT NULL,
    part   integer NOT NULL,
    bytes  bytea   NOT NULL,
    PRIMARY KEY (sha256, part)
);
ALTER TABLE recon_bytes ALTER COLUMN bytes SET STORAGE EXTERNAL;
COMMENT ON TABLE recon_bytes IS 'the file itself, deflated in parts';

CREATE TABLE recon_bill_lines (
    batch_id     bigint  NOT NULL,
    line         bigint  NOT NULL,
    kind         text    NOT NULL,
    amount       bigint  NOT NULL,
    currency     text    NOT NULL,
    status       text    NOT NULL,
    raw_status   text,
    transaction  text,
    operation_no text,
    parent_transaction text,
    funds        text,
    fee          bigint,
    fee_text     text,
    net          bigint,
    local_time   text,
    PRIMARY KEY (batch_id, line)
);

CREATE TABLE recon_settlement_lines (
    batch_id     bigint  NOT NULL,
    line         bigint  NOT NULL,
    kind         text    NOT NULL,
    amount       bigint  NOT NULL,
    currency     text    NOT NULL,
    transaction  text,
    operation_no text,
    fee          bigint,
    net          bigint,
    trade_date   date,
    settlement_date date,
    raw_kind     text,
    PRIMARY KEY (batch_id, line)
);

CREATE TABLE recon_payouts (
    batch_id bigint NOT NULL,
    line     bigint NOT NULL,
    ref      text   NOT NULL,
    amount   bigint NOT NULL,
    currency text   NOT NULL,
    paid_on  date,
    PRIMARY KEY (batch_id, ref)
);

CREATE TABLE recon_bank_entries (
    batch_id bigint NOT NULL,
    line     bigint NOT NULL,
    name     text[] NOT NULL,
    entry    text   NOT NULL,
    PRIMARY KEY (batch_id, line)
);
COMMENT ON COLUMN recon_bank_entries.name IS 'by what the entry is known again in another file';
COMMENT ON COLUMN recon_bank_entries.entry IS 'the entry with its details, as JSON';
CREATE INDEX recon_bank_entries_of_name ON recon_bank_entries (name);

CREATE TABLE recon_statements (
    batch_id  bigint NOT NULL,
    part      integer NOT NULL,
    statement text,
    account   text,
    currency  text,
    opening   bigint,
    closing   bigint,
    PRIMARY KEY (batch_id, part)
);

CREATE TABLE recon_controls (
    batch_id    bigint NOT NULL,
    name        text   NOT NULL,
    stated      bigint NOT NULL,
    read        bigint NOT NULL,
    stated_text text,
    read_text   text,
    PRIMARY KEY (batch_id, name)
);

CREATE TABLE recon_rejected_rows (
    batch_id bigint NOT NULL,
    line     bigint NOT NULL,
    field    text   NOT NULL,
    reason   text   NOT NULL
);
CREATE INDEX recon_rejected_rows_of_batch ON recon_rejected_rows (batch_id, line);

-- What came of it.

CREATE TABLE recon_runs (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel     text        NOT NULL,
    rules       text        NOT NULL,
    ran_at      timestamptz NOT NULL,
    outcome     text        NOT NULL
);
COMMENT ON COLUMN recon_runs.outcome IS 'how many lines and operations came to which verdict, as JSON';

CREATE TABLE recon_results (
    batch_id   bigint      NOT NULL,
    line       bigint      NOT NULL,
    verdict    text        NOT NULL,
    merchant   text,
    number     text,
    order_id   text,
    candidates text[],
    run_id     bigint      NOT NULL,
    fee_told   boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (batch_id, line)
);
COMMENT ON TABLE recon_results IS 'what came of a line in its last run (R-113); handler, action and time are the discrepancy''s';
CREATE INDEX recon_results_open ON recon_results (batch_id) WHERE verdict <> 'MATCHED';
CREATE INDEX recon_results_fees ON recon_results (batch_id) WHERE verdict = 'MATCHED' AND NOT fee_told;
COMMENT ON COLUMN recon_results.fee_told IS 'there is no fee, or it was told';

CREATE TABLE recon_missing (
    channel  text   NOT NULL,
    merchant text   NOT NULL,
    number   text   NOT NULL,
    order_id text   NOT NULL,
    day      date   NOT NULL,
    verdict  text   NOT NULL CHECK (verdict IN ('HELD', 'LOCAL_ONLY')),
    run_id   bigint NOT NULL,
    PRIMARY KEY (channel, merchant, number, order_id)
);
COMMENT ON TABLE recon_missing IS 'operations that a complete bill of their day lacks, as of the last run';

CREATE TABLE recon_items (
    ref      text    NOT NULL,
    channel  text    NOT NULL,
    amount   bigint  NOT NULL,
    currency text    NOT NULL,
    payout   boolean NOT NULL,
    came     bigint  NOT NULL DEFAULT 0,
    settled  boolean NOT NULL DEFAULT false,
    bounced  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (channel, ref)
);
COMMENT ON TABLE recon_items IS 'what is expected at the bank; an empty channel is what we pay';

CREATE TABLE recon_bank_results (
    name     text[]  PRIMARY KEY,
    entry    text[]  NOT NULL,
    batch_id bigint  NOT NULL,
    line     bigint  NOT NULL,
    account  text    NOT NULL,
    amount   bigint  NOT NULL,
    currency text    NOT NULL,
    verdict  text    NOT NULL,
    channel  text    NOT NULL DEFAULT '',
    item     text,
    candidates text[],
    detailed boolean NOT NULL,
    run_id   bigint  NOT NULL
);
COMMENT ON TABLE recon_bank_results IS 'every bank line once, whatever files have it, and what came of it';
CREATE INDEX recon_bank_results_of_entry ON recon_bank_results (entry);

CREATE TABLE recon_outbox (
    seq      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id text        NOT NULL UNIQUE,
    order_id text        NOT NULL,
    body     text        NOT NULL,
    sent_at  timestamptz
);
COMMENT ON TABLE recon_outbox IS 'events for payments.query-results, written with what they tell of; sent at least once';
CREATE INDEX recon_outbox_waiting ON recon_outbox (seq) WHERE sent_at IS NULL;

CREATE FUNCTION recon_line_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what a file said stays', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', HINT = 'import a corrected file; it becomes a version of its own';
END $$;
CREATE TRIGGER recon_line_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_bytes FOR EACH STATEMENT EXECUTE FUNCTION recon_line_stays();
CREATE TRIGGER recon_line_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_bill_lines FOR EACH STATEMENT EXECUTE FUNCTION recon_line_stays();
CREATE TRIGGER recon_line_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_settlement_lines FOR EACH STATEMENT EXECUTE FUNCTION recon_line_stays();
CREATE TRIGGER recon_line_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_payouts FOR EACH STATEMENT EXECUTE FUNCTION recon_line_stays();
CREATE TRIGGER recon_line_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_bank_entries FOR EACH STATEMENT EXECUTE FUNCTION recon_line_stays();

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'concord_reconciler') THEN
        CREATE ROLE concord_reconciler NOLOGIN;
    END IF;
END $$;
GRANT USAGE ON SCHEMA books TO concord_reconciler;
GRANT SELECT ON ALL TABLES IN SCHEMA books TO concord_reconciler;
GRANT SELECT, INSERT ON recon_bytes, recon_bill_lines, recon_settlement_lines, recon_payouts, recon_bank_entries, recon_statements,
    recon_controls, recon_rejected_rows TO concord_reconciler;
GRANT SELECT, INSERT, UPDATE, DELETE ON recon_batches TO concord_reconciler;
GRANT SELECT, INSERT, UPDATE, DELETE ON recon_runs, recon_results, recon_missing, recon_items, recon_bank_results, recon_outbox
    TO concord_reconciler;
GRANT SELECT ON recon_batches, recon_bill_lines, recon_settlement_lines, recon_payouts, recon_bank_entries, recon_statements, recon_controls,
    recon_rejected_rows, recon_runs, recon_results, recon_missing, recon_items, recon_bank_results, recon_outbox TO concord_reader;
