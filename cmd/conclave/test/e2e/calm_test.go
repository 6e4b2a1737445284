//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// link forwards the connections of an address of this machine until it is cut.
type link struct {
	t            *testing.T
	address, far string

	mu    sync.Mutex
	close []io.Closer
}

func newLink(t *testing.T, far string) *link {
	t.Helper()
	l := &link{t: t, address: freeAddress(t), far: far}
	l.mend()
	t.Cleanup(l.cut)
	return l
}

// mend listens at the address again.
func (l *link) mend() {
	l.t.Helper()
	listener, err := net.Listen("tcp", l.address)
	require.NoError(l.t, err)
	l.keep(listener)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it is cut
			}
			far, err := net.Dial("tcp", l.far)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.keep(near, far)
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		}
	}()
}

func (l *link) keep(open ...io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close = append(l.close, open...)
}

// cut closes all connections and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.close {
		_ = c.Close()
	}
	l.close = nil
}

// A worker logs no error while sessions end in all the normal ways: decided after retries, failed, paused and
// resumed, cancelled, and continued by the next worker after SIGTERM and after a lost connection to Temporal.
func TestNormalWorkIsNoError(t *testing.T) {
	t.Parallel()
	cancelled, asked1, hold1 := held(answer("Lost."))
	paused, asked2, hold2 := held(answer("Lost."))
	stopped, asked3, hold3 := held(answer("Lost."))
	cut, asked4, hold4 := held(answer("Answer A."))
	mine := vote("agent1", "Mine.")
	model := newModelServer(t, map[string][]reply{"model-a": {
		fails(500), answer("Answer A."), mine, fails(401), cancelled, paused, answer("Answer A."), mine, stopped, answer("Answer A."), mine, cut, mine,
	}})
	t.Cleanup(func() { close(hold1); close(hold2); close(hold3) })
	s := newSite(t)
	w := newClusterWorker(t, s, model, "heartbeat_timeout_seconds: 10\n")
	way := newLink(t, w.address)
	w.args[2] = way.address
	w.args = append(w.args, "--log-format", "json", "--log-level", "debug")
	first := w.start()

	ended(t, s.start("retried"), "consensus")
	ended(t, s.start("failed"), "failed")
	run := s.start("cancelled")
	<-asked1
	require.Equal(t, 0, w.conclave("cancel", "cancelled").code)
	require.Error(t, run.Get(t.Context(), nil))
	run = s.start("paused")
	<-asked2
	require.Equal(t, 0, w.conclave("pause", "paused").code)
	require.Eventually(t, func() bool { return s.running("paused") == 0 }, time.Minute, 50*time.Millisecond)
	require.Equal(t, 0, w.conclave("resume", "paused").code)
	ended(t, run, "consensus")

	run = s.start("stopped")
	<-asked3
	began := time.Now()
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, first.ends(t))
	require.Less(t, time.Since(began), 20*time.Second)
	requireCalm(t, first)
	second := w.start()
	ended(t, run, "consensus")

	run = s.start("cut")
	<-asked4
	way.cut()
	close(hold4)
	second.prints(t, "connection refused")
	way.mend()
	ended(t, run, "consensus")
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, second.ends(t))
	requireCalm(t, second)
}

// requireCalm checks that every line of a worker's log is JSON, and that none is an error.
func requireCalm(t *testing.T, b *background) {
	t.Helper()
	for line := range strings.Lines(b.log.String()) {
		var entry struct{ Level, Msg string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		require.NotEqual(t, "ERROR", entry.Level, line)
	}
}
