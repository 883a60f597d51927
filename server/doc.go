// Package server is the Quoin server as a library: Start opens a data directory and
// serves it over QUIC until Shutdown. The binary in cmd/quoin is this package with flags.
//
//	srv, err := server.Start(server.Config{Data: "./quoin-data"})
//	if err != nil { ... }
//	defer srv.Shutdown(context.Background())
//	fmt.Println(srv.URL()) // quoin://127.0.0.1:7733?pin=sha256:...
//
// With nothing configured it listens on loopback only, makes itself a certificate on the
// first start, and keeps everything it must not lose in its data directory:
//
//	catalog.db                      topics, producer ids, owner terms
//	topics/ID/N/*.seg, *.idx        the log of partition N of the topic with that id
//	topics/ID/N/*.pix               where the batches of each producer stand in it
//	topics/ID/N/producers-*.snap    what the partition knew of its producers
//	topics/ID/N/retired*            producers that have left its memory
//	tls.crt, tls.key                the development certificate, mode 0600
//	reset.key, token.key            the transport's secrets, mode 0600
//
// What it promises: a batch is acknowledged when it is on disk; a batch that is sent again
// is answered with where it stands and is not appended a second time; what is not durable
// is shown to no reader. With Config.AdminAddr it also answers health, metrics and profiles
// over HTTP. It never serves a data directory that another process has open.
package server
