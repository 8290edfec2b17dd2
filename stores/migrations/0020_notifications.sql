-- What merchants are told, and whether they have heard it. Recorded exactly once, as the Kafka offsets move in the transaction that
-- records; delivered at least once, each under one id for good. Outside of `books`: what was told cannot be built again.

ALTER TABLE merchants
    ADD COLUMN notify_url text CHECK (notify_url ~ '^https?://[^\s@]+$' AND length(notify_url) <= 2000),
    ADD COLUMN notify_secret_refs text[] NOT NULL DEFAULT '{}' CHECK (cardinality(notify_secret_refs) <= 3),
    ADD CONSTRAINT merchants_notify_signed CHECK (notify_url IS NULL OR cardinality(notify_secret_refs) > 0);
COMMENT ON COLUMN merchants.notify_secret_refs IS 'where the signing secrets lie, `env:NAME` or `file:PATH`, the newest first; never a secret';

CREATE TABLE notification_positions (
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    PRIMARY KEY (topic, partition)
);

CREATE TABLE notifications (
    seq           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text        NOT NULL UNIQUE,
    merchant      text        NOT NULL REFERENCES merchants,
    order_id      text        NOT NULL,
    payment_no    text        NOT NULL,
    type          text        NOT NULL,
    body          text        NOT NULL,
    decided_at    timestamptz NOT NULL,
    recorded_at   timestamptz NOT NULL,
    handle_status text        NOT NULL DEFAULT 'waiting' CHECK (handle_status IN ('waiting', 'delivered', 'dead')),
    retry_count   integer     NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    claim         bigint      NOT NULL DEFAULT 0,
    next_retry_time timestamptz,
    handled_at    timestamptz,
    last_error    text        NOT NULL DEFAULT '',
    found         boolean     NOT NULL DEFAULT true,
    CHECK ((handle_status = 'waiting') = (next_retry_time IS NOT NULL)),
    CHECK (found OR handle_status = 'dead')
);
COMMENT ON TABLE notifications IS 'what a merchant is told of a payment (R-110, R-141); dead: given up after the last try, for a person (R-084, R-086)';
COMMENT ON COLUMN notifications.seq IS 'the order in which notices of one payment are delivered';
COMMENT ON COLUMN notifications.claim IS 'moved by whoever takes the notice to deliver it, so that only the last taker settles it';
COMMENT ON COLUMN notifications.found IS 'false: it is dead, and the discrepancy over it is not on its way yet';
CREATE INDEX notifications_due ON notifications (handle_status, next_retry_time) WHERE handle_status = 'waiting';
CREATE INDEX notifications_of_payment ON notifications (merchant, payment_no, order_id, seq);
CREATE INDEX notifications_unfound ON notifications (seq) WHERE NOT found;
CREATE INDEX notifications_dead ON notifications (handled_at) WHERE handle_status = 'dead';

CREATE VIEW payment_notices AS
SELECT merchant, payment_no, order_id, count(*) FILTER (WHERE handle_status = 'delivered') AS notify_count,
       max(handled_at) FILTER (WHERE handle_status = 'delivered') AS notify_time,
       count(*) FILTER (WHERE handle_status = 'waiting') AS waiting, count(*) FILTER (WHERE handle_status = 'dead') AS dead
FROM notifications GROUP BY 1, 2, 3;
COMMENT ON VIEW payment_notices IS 'notices of a payment: how many were delivered, and when the last one was (R-104, R-141)';
