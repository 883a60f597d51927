// Package credentials keeps the secrets that a server needs before it can listen:
// files in the data directory, made on the first start and read on every later one.
//
//   - tls.key and tls.crt: the development certificate, ECDSA P-256, signed by itself,
//     valid for ten years for localhost, 127.0.0.1, ::1 and the host's name. Clients
//     trust it by its pin ([PinOf]), which depends on the key alone: removing tls.crt
//     makes the next start issue a new one, for the host's present name, under the
//     same pin.
//   - reset.key: from it come the stateless reset tokens by which the clients of a
//     server that was restarted notice it in milliseconds.
//   - token.key: it seals address validation tokens, so that those given out before a
//     restart stay valid.
//
// An operator's own certificate takes the place of the first pair ([LoadWith]).
//
// All files are made complete or not at all (temporary file, sync, rename, sync of the
// directory) and have the permissions 0600. Broader ones are taken back to 0600 and
// reported in [Credentials.Tightened] instead of being refused, because some
// orchestrators widen them at each mount and a server that refuses would never start
// there. A file that is damaged is never replaced: the error says which it is and what
// to do ([FileError]).
//
// Whoever calls Load holds the lock of the data directory, that is, has its catalog
// open: two processes must not make the files at the same time. The package starts no
// goroutine, never listens and never logs.
package credentials
