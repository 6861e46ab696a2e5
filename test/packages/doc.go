// Package packages tests what a release consists of, as `make packages` builds it: packages that are installed,
// upgraded and removed in a Debian of their own under systemd, a Prometheus beside the server there, static programs,
// checksums and bills of material. It needs Linux, root and apt-get.
package packages
