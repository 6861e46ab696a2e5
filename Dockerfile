# An image of statically linked programs: sqlstore, the same file under the names etcd and kine, and etcd's etcdctl and
# etcdutl.
# `make image` (scripts/image.sh) prepares the files that are copied here. The build downloads nothing.
FROM scratch
COPY root/ /
# What the server writes: its database with SQLite, and snapshots while they are sent.
COPY --chown=65532:65532 written/ /
VOLUME /data
# Where etcd's command line puts a relative --data-dir.
WORKDIR /data
USER 65532:65532
EXPOSE 2379
# Set SQLSTORE_ENDPOINT, and SQLSTORE_CACERT or the like, if the server listens elsewhere or with TLS only.
HEALTHCHECK --start-period=10m --timeout=10s CMD ["/usr/local/bin/sqlstore", "status"]
ENTRYPOINT ["/usr/local/bin/entrypoint"]
# `docker run IMAGE` serves inside the container, with its data in an anonymous volume; name one to keep it
# (-v data:/data). To make it reachable from outside, set an address: by arguments, which replace these, or by variables
# (SQLSTORE_LISTEN_CLIENT_URLS, and the certificates or SQLSTORE_INSECURE_PLAINTEXT=true). It takes the command lines of
# etcd's image, too: `docker run IMAGE etcd --listen-client-urls ...`, `docker run IMAGE etcdctl ...`.
CMD ["serve", "--data-dir", "/data"]
