# An image of nothing but sqlstore, a statically linked binary: made by `make image`, which puts together what is copied here
# (scripts/image.sh). Nothing is fetched.
FROM scratch
COPY root/ /
# What the server writes: its database with SQLite, and snapshots while they are sent.
COPY --chown=65532:65532 written/ /
VOLUME /data
USER 65532:65532
EXPOSE 2379
ENTRYPOINT ["/sqlstore"]
# `docker run IMAGE` serves inside the container, with its data in a volume of its own; name one to keep it (-v data:/data).
# Reached from outside only with an address given: by arguments, which replace these, or by the environment
# (SQLSTORE_LISTEN_CLIENT_URLS, and the certificates or SQLSTORE_INSECURE_PLAINTEXT=true).
CMD ["serve", "--data-dir", "/data"]
