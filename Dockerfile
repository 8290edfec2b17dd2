# Every role, as a user without rights; the worker without a command. `docker compose up` builds it.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app

# Dependencies first and by hash, so that a change of the code does not fetch them again.
COPY requirements.lock ./
RUN pip install --require-hashes -r requirements.lock

COPY pyproject.toml README.md LICENSE topics.yaml ./
COPY streams ./streams
COPY stores ./stores
RUN pip install --no-deps --no-build-isolation . \
    && useradd --system --uid 10001 --create-home concord \
    && install -d -o concord /var/lib/concord /accounts

USER concord
ENV CONCORD_STATE_DIR=/var/lib/concord \
    CONCORD_WEB_HOST=0.0.0.0
VOLUME /var/lib/concord /accounts
EXPOSE 6066

HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:6066/healthz', timeout=2)"]

# SIGTERM drains and leaves the group; give it longer than its own deadline before SIGKILL.
STOPSIGNAL SIGTERM
CMD ["concord", "worker"]
