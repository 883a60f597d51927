package sdk_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/quoin-io/quoin/server/servertest"
	"github.com/quoin-io/quoin/wire"
)

// A meddler stands between clients and a server. It sees every frame that the server sends,
// and can lose it, with the connection, after the server has done what it tells. Its
// goroutines end with its listener.
type meddler struct {
	url       string
	server    *net.UDPAddr
	transport *quic.Transport
	ctx       context.Context
	wg        sync.WaitGroup
	mu        struct {
		sync.Mutex
		lose  func(wire.Kind) bool
		edits map[wire.Kind]func(wire.Message) wire.Message
		off   bool
		conns map[*quic.Conn]struct{} // of clients
	}
}

func startMeddler(t *testing.T, s *servertest.Server) *meddler {
	t.Helper()
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "quoin://"), "?")
	server, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := certificate(t)
	transport := &quic.Transport{Conn: socket} // to both sides, so that closing it ends all
	l, err := transport.Listen(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}},
		&quic.Config{MaxIncomingStreams: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &meddler{url: "quoin://" + l.Addr().String() + "?pin=" + pinOf(cert.Leaf), server: server, transport: transport, ctx: ctx}
	m.mu.conns = make(map[*quic.Conn]struct{})
	m.mu.edits = make(map[wire.Kind]func(wire.Message) wire.Message)
	m.wg.Go(func() {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			m.wg.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		m.wg.Wait()
		transport.Close()
		socket.Close()
	})
	return m
}

// loseReplies has lose asked of every frame that the server sends; nil loses none. It is
// called before the frame goes on, and may do other harm.
func (m *meddler) loseReplies(lose func(wire.Kind) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.lose = lose
}

// edit has change say what goes on to the clients in the place of a message of that kind; nil
// is nothing. It is called by several goroutines. Without change they are left as they are.
func (m *meddler) edit(k wire.Kind, change func(wire.Message) wire.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.edits[k] = change
}

// editAnswers is edit for the answers to batches: change may take some out, and put others in.
func (m *meddler) editAnswers(change func(*wire.ProduceResults)) {
	m.edit(wire.KindProduceResults, func(w wire.Message) wire.Message {
		answers := w.(*wire.ProduceResults)
		if change(answers); len(answers.Results) == 0 {
			return nil
		}
		return answers
	})
}

// edited is the frame that goes on in the place of another; empty for none.
func (m *meddler) edited(k wire.Kind, frame []byte) ([]byte, error) {
	m.mu.Lock()
	change := m.mu.edits[k]
	m.mu.Unlock()
	if change == nil {
		return frame, nil
	}
	message, err := wire.Decode(k, frame[wire.HeaderSize:])
	if err != nil {
		return nil, err
	}
	if message = change(message); message == nil {
		return nil, nil
	}
	return wire.Append(nil, message), nil
}

// cutOff parts all clients from the server, or ends that.
func (m *meddler) cutOff(off bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.off = off
	for conn := range m.mu.conns {
		conn.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "cut off")
	}
}

// join counts a client's connection, unless all are cut off.
func (m *meddler) join(conn *quic.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.off {
		m.mu.conns[conn] = struct{}{}
	}
	return !m.mu.off
}

func (m *meddler) leave(conn *quic.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.conns, conn)
}

func (m *meddler) loses(k wire.Kind) bool {
	m.mu.Lock()
	lose := m.mu.lose
	m.mu.Unlock()
	return lose != nil && lose(k)
}

// serve carries one connection. It ends when either side does, and ends the other.
func (m *meddler) serve(client *quic.Conn) {
	defer client.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "the meddler's")
	if !m.join(client) {
		return
	}
	defer m.leave(client)
	server, err := m.transport.Dial(m.ctx, m.server, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPN}}, nil)
	if err != nil {
		return
	}
	defer server.CloseWithError(quic.ApplicationErrorCode(wire.CodeOK), "the client left")
	stop := context.AfterFunc(server.Context(), func() {
		client.CloseWithError(quic.ApplicationErrorCode(wire.CodeShutdown), "the server left")
	})
	defer stop()
	for {
		in, err := client.AcceptStream(m.ctx)
		if err != nil {
			return
		}
		out, err := server.OpenStreamSync(m.ctx)
		if err != nil {
			return
		}
		m.wg.Go(func() { // requests
			if _, err := io.Copy(out, in); err != nil {
				out.CancelWrite(0)
				return
			}
			out.Close()
		})
		m.wg.Go(func() {
			defer in.CancelRead(0)
			for {
				frame, kind, err := readFrame(out)
				if err == nil {
					frame, err = m.edited(kind, frame)
				}
				switch {
				case err != nil:
					in.Close()
					return
				case m.loses(kind):
					client.CloseWithError(quic.ApplicationErrorCode(wire.CodeInternal), "lost on purpose")
					server.CloseWithError(quic.ApplicationErrorCode(wire.CodeOK), "the client left")
					return
				}
				if _, err := in.Write(frame); err != nil {
					out.CancelRead(0)
					return
				}
			}
		})
	}
}

func readFrame(r io.Reader) ([]byte, wire.Kind, error) {
	var raw bytes.Buffer
	tee := io.TeeReader(r, &raw)
	h, err := wire.ReadHeader(tee)
	if err == nil {
		_, err = wire.ReadPayload(tee, h, nil)
	}
	return raw.Bytes(), h.Kind, err
}
