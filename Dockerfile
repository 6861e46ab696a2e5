# An image that contains only sqlstore, a statically linked binary. `make image` (scripts/image.sh) prepares the files
# that are copied here. The build downloads nothing.
FROM scratch
COPY root/ /
# What the server writes: its database with SQLite, and snapshots while they are sent.
COPY --chown=65532:65532 written/ /
VOLUME /data
USER 65532:65532
EXPOSE 2379
ENTRYPOINT ["/sqlstore"]
# `docker run IMAGE` serves inside the container, with its data in an anonymous volume; name one to keep it
# (-v data:/data). To make it reachable from outside, set an address: by arguments, which replace these, or by variables
# (SQLSTORE_LISTEN_CLIENT_URLS, and the certificates or SQLSTORE_INSECURE_PLAINTEXT=true).
CMD ["serve", "--data-dir", "/data"]
