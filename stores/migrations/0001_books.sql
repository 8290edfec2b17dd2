-- schema: books
-- The projection: what the decisions say, and nothing that they do not say. All of it can be built again from the topics.
-- Money is integer minor units beside its currency, time is UTC; a merchant that was not named is the empty text.

CREATE TABLE orders (
    order_id   text        PRIMARY KEY,
    seq        bigint      NOT NULL CHECK (seq > 0),
    updated_at timestamptz NOT NULL
);
COMMENT ON COLUMN orders.seq IS 'the last decision that is in the books: what is not the next one is not written';

CREATE TABLE decisions (
    order_id    text        NOT NULL,
    seq         bigint      NOT NULL,
    id          text        NOT NULL,
    verdict     text        NOT NULL,
    rule        text        NOT NULL,
    source      text        NOT NULL,
    word        text        NOT NULL,
    evidence    text        NOT NULL,
    merchant    text        NOT NULL,
    number      text,
    before      text,
    after       text,
    detail      text        NOT NULL,
    marks       text[]      NOT NULL,
    messages    text[]      NOT NULL,
    event_key   text        NOT NULL,
    payload     text        NOT NULL,
    cause       text,
    trace       text,
    decided_at  timestamptz NOT NULL,
    PRIMARY KEY (order_id, seq)
);
COMMENT ON COLUMN decisions.number IS 'the operation it is about';
COMMENT ON COLUMN decisions.cause IS 'topic/partition/offset of what it answers; nothing caused a due time';

-- R-104, R-105. A number is unique within its order, which the worker sees to; two orders that use one are both kept.
CREATE TABLE payments (
    merchant    text        NOT NULL,
    payment_no  text        NOT NULL,
    order_id    text        NOT NULL,
    biz_code    text        NOT NULL,
    channel     text        NOT NULL,
    amount      bigint      NOT NULL,
    currency    text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    state       text        NOT NULL,
    transaction text,
    evidence    text,
    expires_at  timestamptz,
    success_at  timestamptz,
    sequence    bigint,
    version     bigint,
    fee         bigint,
    announced   boolean     NOT NULL,
    captured    bigint      NOT NULL,
    held        bigint      NOT NULL,
    returned    bigint      NOT NULL,
    disputed    bigint      NOT NULL,
    dispute     text,
    duplicate   boolean     NOT NULL,
    fulfilled   boolean     NOT NULL,
    finished    boolean     NOT NULL,
    order_total bigint,
    attempts    integer     NOT NULL,
    queries     integer     NOT NULL,
    closes      integer     NOT NULL,
    next_query_at  timestamptz,
    lease_ends_at  timestamptz,
    window_ends_at timestamptz,
    seq         bigint      NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (merchant, payment_no, order_id),
    -- One live payment and one announced success of an order and business code (R-037, R-139); legs of one total are live together.
    CONSTRAINT one_live_payment EXCLUDE USING btree (order_id WITH =, biz_code WITH =, merchant WITH =)
        WHERE (state IN ('INIT', 'PAYING', 'UNKNOWN', 'AUTHORIZED') AND order_total IS NULL) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT one_announced_success EXCLUDE USING btree (order_id WITH =, biz_code WITH =, merchant WITH =)
        WHERE (announced) DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON COLUMN payments.expires_at IS 'as it was created with; kept after the payment is no longer INIT';
CREATE INDEX payments_of_order ON payments (order_id, biz_code);
CREATE INDEX payments_open ON payments (state, expires_at) WHERE state IN ('INIT', 'PAYING', 'UNKNOWN', 'AUTHORIZED');
CREATE INDEX payments_of_transaction ON payments (transaction) WHERE transaction IS NOT NULL;
CREATE INDEX payments_by_day ON payments USING brin (created_at);

-- Captures, voids and refunds: business acts with numbers of their own (R-032).
CREATE TABLE operations (
    merchant    text        NOT NULL,
    number      text        NOT NULL,
    order_id    text        NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('CAPTURE', 'VOID', 'REFUND')),
    payment_no  text        NOT NULL,
    channel     text        NOT NULL,
    amount      bigint      NOT NULL,
    currency    text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    state       text        NOT NULL,
    transaction text,
    evidence    text,
    success_at  timestamptz,
    sequence    bigint,
    late        boolean     NOT NULL,
    attempts    integer     NOT NULL,
    queries     integer     NOT NULL,
    next_query_at  timestamptz,
    window_ends_at timestamptz,
    seq         bigint      NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (merchant, number, order_id)
);
CREATE INDEX operations_of_payment ON operations (order_id, payment_no);
CREATE INDEX operations_of_transaction ON operations (transaction) WHERE transaction IS NOT NULL;

-- What each party shows of a refund; none implies another (R-118, R-210, R-211).
CREATE TABLE refunds (
    merchant         text        NOT NULL,
    refund_no        text        NOT NULL,
    order_id         text        NOT NULL,
    payment_no       text        NOT NULL,
    requested_amount bigint      NOT NULL,
    currency         text        NOT NULL,
    state            text        NOT NULL,
    merchant_status  text,
    processor_status text,
    card_status      text,
    seq              bigint      NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (merchant, refund_no, order_id)
);
CREATE INDEX refunds_of_payment ON refunds (order_id, payment_no);

-- The way of refunded money from the card to the wallet's balance.
CREATE TABLE wallet_legs (
    merchant   text        NOT NULL,
    refund_no  text        NOT NULL,
    order_id   text        NOT NULL,
    status     text        NOT NULL,
    amount     bigint      NOT NULL,
    currency   text        NOT NULL,
    seq        bigint      NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (merchant, refund_no, order_id)
);

-- One submission of an operation to one channel account, under one idempotency key through every retry (R-031, R-100, R-101).
CREATE TABLE attempts (
    merchant        text        NOT NULL,
    number          text        NOT NULL,
    order_id        text        NOT NULL,
    attempt         integer     NOT NULL CHECK (attempt > 0),
    kind            text        NOT NULL,
    channel         text        NOT NULL,
    amount          bigint      NOT NULL,
    currency        text        NOT NULL,
    idempotency_key text,
    transaction     text,
    state           text        NOT NULL,
    sends           integer     NOT NULL,
    refused_by      text,
    first_sent_at   timestamptz NOT NULL,
    last_sent_at    timestamptz NOT NULL,
    seq             bigint      NOT NULL,
    PRIMARY KEY (merchant, number, order_id, attempt)
);

-- What the issuer booked on the card, each entry once (R-118, R-219).
CREATE TABLE card_entries (
    channel       text        NOT NULL,
    event_id      text        NOT NULL,
    order_id      text        NOT NULL,
    status        text        NOT NULL,
    amount        bigint      NOT NULL,
    currency      text        NOT NULL,
    transaction   text,
    "authorization" text,
    number        text,
    posted_at     text,
    received_at   timestamptz NOT NULL,
    seq           bigint      NOT NULL,
    PRIMARY KEY (channel, event_id, order_id)
);
COMMENT ON COLUMN card_entries.posted_at IS 'as the issuer wrote it';

-- What was said to us, beside what we believe (R-107, R-108). `event_key` is the dedupe key of R-072, or the moment of what has none.
CREATE TABLE inbox (
    order_id       text        NOT NULL,
    event_key      text        NOT NULL,
    payload_hash   text        NOT NULL,
    source         text        NOT NULL,
    channel        text        NOT NULL,
    channel_event_id       text,
    channel_transaction_id text,
    event_type     text        NOT NULL,
    event_version  bigint,
    sequence       bigint,
    event_time     text,
    word           text        NOT NULL,
    amount         bigint,
    currency       text,
    amount_text    text,
    fee            bigint,
    cumulative_refunded bigint,
    number         text,
    reason         text,
    error_class    text,
    request_id     text,
    raw_sha256     text,
    cause          text,
    signature_valid boolean    NOT NULL,
    process_status text        NOT NULL,
    process_rule   text        NOT NULL,
    process_error  text,
    repeats        integer     NOT NULL DEFAULT 0,
    received_at    timestamptz NOT NULL,
    processed_at   timestamptz NOT NULL,
    seq            bigint      NOT NULL,
    PRIMARY KEY (order_id, event_key, payload_hash)
);
CREATE INDEX inbox_of_channel ON inbox (channel, channel_event_id);
CREATE INDEX inbox_by_time ON inbox USING brin (received_at);

-- The message itself, redacted, then encrypted (R-109): by the place of its record, which inbox.cause and dead_letters.cause name.
CREATE TABLE raw_messages (
    topic        text        NOT NULL,
    partition    integer     NOT NULL,
    "offset"     bigint      NOT NULL,
    order_id     text        NOT NULL,
    channel      text        NOT NULL,
    content_type text        NOT NULL,
    sha256       text        NOT NULL,
    redactions   integer     NOT NULL,
    key_id       text,
    sealed       bytea,
    received_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition, "offset"),
    CHECK ((key_id IS NULL) = (sealed IS NULL))
);
CREATE INDEX raw_messages_of_hash ON raw_messages (sha256);

-- Input that could never be handled: what the inbox of R-107 calls dead.
CREATE TABLE dead_letters (
    topic        text        NOT NULL,
    partition    integer     NOT NULL,
    "offset"     bigint      NOT NULL,
    cause        text        NOT NULL,
    order_id     text        NOT NULL,
    kind         text        NOT NULL,
    reason       text        NOT NULL,
    sha256       text        NOT NULL,
    died_at      timestamptz NOT NULL,
    PRIMARY KEY (topic, partition, "offset")
);

-- Double entry. An entry is what one decision posts at once; its postings add up to nothing, debits above zero.
CREATE TABLE ledger_entries (
    order_id  text        NOT NULL,
    seq       bigint      NOT NULL,
    line      integer     NOT NULL,
    ref       text        NOT NULL,
    currency  text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    decision  text        NOT NULL,
    posted_at timestamptz NOT NULL,
    PRIMARY KEY (order_id, seq, line)
);
CREATE TABLE postings (
    order_id text    NOT NULL,
    seq      bigint  NOT NULL,
    line     integer NOT NULL,
    account  text    NOT NULL,
    amount   bigint  NOT NULL CHECK (amount <> 0),
    PRIMARY KEY (order_id, seq, line, account),
    FOREIGN KEY (order_id, seq, line) REFERENCES ledger_entries DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX postings_of_account ON postings (account);

CREATE FUNCTION require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    total numeric;
    sides bigint;
BEGIN
    SELECT coalesce(sum(amount), 0), count(*) INTO total, sides
      FROM postings WHERE order_id = NEW.order_id AND seq = NEW.seq AND line = NEW.line;
    IF total <> 0 OR sides < 2 THEN
        RAISE EXCEPTION 'entry %/%/% has % postings that add up to %', NEW.order_id, NEW.seq, NEW.line, sides, total
            USING ERRCODE = 'check_violation', HINT = 'post debits and credits of one entry in one transaction';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER balanced AFTER INSERT ON ledger_entries DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_balance();
CREATE CONSTRAINT TRIGGER balanced AFTER INSERT ON postings DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_balance();

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what was written there stays', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', HINT = 'a correction is a new entry';
END $$;
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries EXECUTE FUNCTION refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON postings EXECUTE FUNCTION refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON decisions EXECUTE FUNCTION refuse_change();

CREATE VIEW balances AS
    SELECT account, currency, sum(amount) AS balance, count(*) AS postings
      FROM postings JOIN ledger_entries USING (order_id, seq, line) GROUP BY account, currency;

-- Disagreements as they stand, and every step of their lives.
CREATE TABLE discrepancies (
    id         text        PRIMARY KEY,
    revision   integer     NOT NULL,
    status     text        NOT NULL,
    kind       text        NOT NULL,
    severity   text        NOT NULL,
    ref        text        NOT NULL,
    order_id   text        NOT NULL,
    payment_no text,
    evidence   text        NOT NULL,
    owner      text        NOT NULL,
    detail     text        NOT NULL,
    deadline   timestamptz,
    opened_at  timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
COMMENT ON COLUMN discrepancies.opened_at IS 'first opened; what comes back keeps it';
CREATE INDEX discrepancies_of_order ON discrepancies (order_id);
CREATE INDEX discrepancies_open ON discrepancies (severity, deadline) WHERE status <> 'resolved';

CREATE TABLE discrepancy_steps (
    id         text        NOT NULL,
    revision   integer     NOT NULL,
    status     text        NOT NULL,
    kind       text        NOT NULL,
    severity   text        NOT NULL,
    ref        text        NOT NULL,
    order_id   text        NOT NULL,
    payment_no text,
    evidence   text        NOT NULL,
    owner      text        NOT NULL,
    decision   text        NOT NULL,
    detail     text        NOT NULL,
    deadline   timestamptz,
    decided_at timestamptz NOT NULL,
    PRIMARY KEY (id, revision)
);
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON discrepancy_steps EXECUTE FUNCTION refuse_change();

-- Whose a channel's transaction is: the order that had it first. Another order's claim runs into the key (R-040).
CREATE TABLE transactions (
    channel     text        NOT NULL,
    transaction text        NOT NULL,
    order_id    text        NOT NULL,
    merchant    text        NOT NULL,
    number      text        NOT NULL,
    claimed_at  timestamptz NOT NULL,
    PRIMARY KEY (channel, transaction)
);
CREATE TABLE shared_transactions (
    channel     text        NOT NULL,
    transaction text        NOT NULL,
    order_id    text        NOT NULL,
    merchant    text        NOT NULL,
    number      text        NOT NULL,
    claimed_at  timestamptz NOT NULL,
    PRIMARY KEY (channel, transaction, order_id)
);
CREATE TABLE told_findings (
    channel     text NOT NULL,
    transaction text NOT NULL,
    order_id    text NOT NULL,
    other_order text NOT NULL,
    PRIMARY KEY (channel, transaction, order_id, other_order)
);
COMMENT ON TABLE shared_transactions IS 'every order that claims a transaction which several claim';

-- The next record of each input to be written. It changes in the transaction that writes what came before it, and only from the
-- value that the writer read: whoever lost its partition finds another value, and writes nothing.
CREATE TABLE offsets (
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL CHECK (next_offset >= 0),
    PRIMARY KEY (topic, partition)
);

-- Per channel and day of creation, UTC: how many, how much, how they ended and how fast they were paid (R-119).
CREATE VIEW channel_days AS
    SELECT p.channel, (p.created_at AT TIME ZONE 'UTC')::date AS day, p.currency,
           count(*) AS payments,
           sum(p.amount) AS volume,
           count(*) FILTER (WHERE p.state = 'SUCCESS') AS succeeded,
           coalesce(sum(p.amount) FILTER (WHERE p.state = 'SUCCESS'), 0) AS success_volume,
           count(*) FILTER (WHERE p.state = 'FAIL') AS failed,
           count(*) FILTER (WHERE p.state = 'CLOSED') AS closed,
           count(*) FILTER (WHERE p.state IN ('INIT', 'PAYING', 'UNKNOWN', 'AUTHORIZED')) AS open,
           coalesce(sum(p.fee), 0) AS fees,
           round(extract(epoch FROM avg(p.success_at - a.first_sent_at)) * 1000)::bigint AS average_latency_ms
      FROM payments p
      LEFT JOIN attempts a ON (a.merchant, a.number, a.order_id, a.attempt) = (p.merchant, p.payment_no, p.order_id, 1)
     GROUP BY 1, 2, 3;

-- Why payments did not succeed, per channel and day: the class of the last answer that failed (R-119).
CREATE VIEW channel_failures AS
    SELECT channel, (received_at AT TIME ZONE 'UTC')::date AS day, coalesce(error_class, word) AS failure, count(*) AS answers
      FROM inbox WHERE error_class IS NOT NULL OR process_rule IN ('failure', 'attempt-refused')
     GROUP BY 1, 2, 3;

-- The last thing that was said of each operation: its raw status, error class and hash (R-101, R-117).
CREATE VIEW last_words AS
    SELECT DISTINCT ON (order_id, number) order_id, number, channel, source, word, error_class, received_at, payload_hash, raw_sha256, cause
      FROM inbox WHERE number IS NOT NULL ORDER BY order_id, number, received_at DESC, seq DESC;
