"""Exactly once on Kafka: one transactional owner per partition. It knows no payment."""
