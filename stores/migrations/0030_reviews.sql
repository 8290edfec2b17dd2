-- The review desk: who may do what, what people said and proposed about a discrepancy, and the log of all of it (R-197).
-- Nothing here holds an amount or a state of money: an approved proposal becomes a command, and the stream decides.

CREATE TABLE reviewers (
    name        text        PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9._-]{0,63}$'),
    role        text        NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'admin')),
    created_at  timestamptz NOT NULL,
    disabled_at timestamptz
);

CREATE TABLE reviewer_keys (
    key_id      text        PRIMARY KEY CHECK (key_id ~ '^[0-9a-f]{16}$'),
    reviewer    text        NOT NULL REFERENCES reviewers,
    secret_hash bytea       NOT NULL CHECK (octet_length(secret_hash) = 32),
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);
CREATE INDEX reviewer_keys_of_reviewer ON reviewer_keys (reviewer);

CREATE TABLE review_claims (
    discrepancy text        PRIMARY KEY,
    reviewer    text        NOT NULL REFERENCES reviewers,
    claimed_at  timestamptz NOT NULL
);
COMMENT ON TABLE review_claims IS 'who works on it; the discrepancy itself is a row of the projection, which may be built again';

CREATE TABLE review_comments (
    discrepancy text        NOT NULL,
    number      integer     NOT NULL CHECK (number > 0),
    author      text        NOT NULL REFERENCES reviewers,
    said_at     timestamptz NOT NULL,
    text        text        NOT NULL CHECK (length(text) BETWEEN 1 AND 4000),
    PRIMARY KEY (discrepancy, number)
);

CREATE TABLE review_proposals (
    discrepancy text        NOT NULL,
    number      integer     NOT NULL CHECK (number > 0),
    revision    integer     NOT NULL,
    order_id    text        NOT NULL,
    action      text        NOT NULL CHECK (action IN ('refund', 'fulfil', 'book', 'close')),
    evidence    text        NOT NULL CHECK (evidence ~ '\S' AND length(evidence) <= 256),
    refund_no   text,
    proposer    text        NOT NULL REFERENCES reviewers,
    proposed_at timestamptz NOT NULL,
    state       text        NOT NULL CHECK (state IN ('proposed', 'rejected', 'approved', 'applied', 'refused')),
    decider     text        REFERENCES reviewers,
    decided_at  timestamptz,
    reason      text        NOT NULL DEFAULT '' CHECK (length(reason) <= 4000),
    command_id  text        NOT NULL UNIQUE,
    rule        text        NOT NULL DEFAULT '',
    detail      text        NOT NULL DEFAULT '',
    PRIMARY KEY (discrepancy, number),
    CONSTRAINT another_person_decides CHECK (decider IS NULL OR decider <> proposer OR state = 'rejected'),
    CONSTRAINT a_refund_has_a_number CHECK ((action = 'refund') = (refund_no IS NOT NULL)),
    CONSTRAINT what_is_decided_names_who CHECK ((state = 'proposed') = (decider IS NULL))
);
COMMENT ON COLUMN review_proposals.state IS 'approved: the command is being sent, or its verdict is not known yet; applied and refused are the law''s verdicts';
CREATE UNIQUE INDEX review_proposals_open ON review_proposals (discrepancy) WHERE state IN ('proposed', 'approved');
CREATE INDEX review_proposals_to_send ON review_proposals (decided_at) WHERE state = 'approved';

CREATE TABLE audit_log (
    seq      bigint      PRIMARY KEY CHECK (seq > 0),
    at       timestamptz NOT NULL,
    actor    text        NOT NULL,
    act      text        NOT NULL,
    subject  text        NOT NULL,
    detail   text        NOT NULL,
    previous bytea       NOT NULL CHECK (octet_length(previous) = 32),
    hash     bytea       NOT NULL CHECK (octet_length(hash) = 32)
);
COMMENT ON TABLE audit_log IS 'each entry is sealed over the one before it: `concord audit verify`';
CREATE INDEX audit_log_of_subject ON audit_log (subject, seq);

CREATE FUNCTION audit_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of the audit log is refused: what was written there stays', TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_stays();
