//go:build bench

package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// idleStreams is the number of streams that wait for one session.
const idleStreams = 500

// served is a `conclave serve` without a worker, in front of a stack with workers.
type served struct {
	*stack
	command *process
	url     string
	asked   int
}

func newServed(b *testing.B, s *stack) *served {
	b.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	listen := free.Addr().String()
	require.NoError(b, free.Close())
	env, _ := s.work("conclave", s.S3Endpoint)
	out := &served{stack: s, url: "http://" + listen}
	out.command = s.background(env, []string{"serve", "--listen", listen, "--address", s.TemporalAddress, "--bucket", s.Bucket})
	require.Eventually(b, func() bool {
		res, err := http.Get(out.url + "/v1/models")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil
	}, time.Minute, 20*time.Millisecond, "the server does not start")
	return out
}

// ask sends a request for a session with a key, whose answer is streamed or not.
func (s *served) ask(key string, stream bool) *http.Response {
	s.b.Helper()
	body := fmt.Sprintf(`{"model":"conclave","stream":%t,"messages":[{"role":"user","content":"Which of us is right?"}]}`, stream)
	req, err := http.NewRequestWithContext(s.b.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(s.b, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.b, err)
	require.Equal(s.b, http.StatusOK, res.StatusCode)
	return res
}

// key names a new session.
func (s *served) key() string {
	s.asked++
	return fmt.Sprintf("k%d", s.asked)
}

// answer asks for a session and returns the time that its caller waits in addition to the session's
// own time.
func (s *served) answer() time.Duration {
	s.b.Helper()
	began := time.Now()
	res := s.ask(s.key(), false)
	_, err := io.Copy(io.Discard, res.Body)
	require.NoError(s.b, err)
	require.NoError(s.b, res.Body.Close())
	return time.Since(began) - s.took(res.Header.Get("X-Conclave-Session"))
}

// direct starts a session in Temporal, as `conclave run` does, and returns the time that its caller
// waits in addition to the session's own time.
func (s *served) direct() time.Duration {
	s.b.Helper()
	waited := s.session("conclave")
	return waited - s.took(s.name())
}

// took returns the time from the begin to the end of a session by Temporal's clock.
func (s *served) took(id string) time.Duration {
	s.b.Helper()
	d, err := s.client.DescribeWorkflowExecution(s.b.Context(), id, "")
	require.NoError(s.b, err)
	info := d.GetWorkflowExecutionInfo()
	return info.GetCloseTime().AsTime().Sub(info.GetStartTime().AsTime())
}

// firstByte returns the time until a stream begins, and reads the rest.
func (s *served) firstByte() time.Duration {
	s.b.Helper()
	began := time.Now()
	res := s.ask(s.key(), true)
	_, err := bufio.NewReader(res.Body).ReadString('\n')
	took := time.Since(began)
	require.NoError(s.b, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(s.b, err)
	require.NoError(s.b, res.Body.Close())
	return took
}

// BenchmarkServe measures the time that HTTP adds to a session, the time to the first byte of a
// stream, and the resident memory of a server with idle streams. Because the duration of a session
// varies by some 100 ms, the added time is computed from waits: a caller's wait after the session's
// own time over HTTP, less that of a client of Temporal.
func BenchmarkServe(b *testing.B) {
	var thinks atomic.Int64 // the time that every model call takes
	thinks.Store(int64(100 * time.Millisecond))
	mind := alone.minds(0)["model-a"]
	m := newModelServer(b, minds{"model-a": func(r request) (call, time.Duration) {
		reply, _ := mind(r)
		return reply, time.Duration(thinks.Load())
	}})
	s := newServed(b, newStack(b, m))
	s.session("conclave") // the first one is slower

	var direct, asked, first samples
	for b.Loop() {
		direct.add(s.direct().Seconds())
		asked.add(s.answer().Seconds())
		first.add(s.firstByte().Seconds())
	}
	thinks.Store(int64(20 * time.Second))
	server := s.command.Process.Pid
	forget(b, server)
	idle := memory(b, server, "VmRSS")
	key := s.key()
	for range idleStreams {
		res := s.ask(key, true)
		defer res.Body.Close()
		_, err := bufio.NewReader(res.Body).ReadString('\n')
		require.NoError(b, err)
	}
	b.ReportMetric((asked.median()-direct.median())*1000, "added-ms")
	b.ReportMetric(first.median()*1000, "ms-to-first-byte")
	b.ReportMetric(memory(b, server, "VmHWM"), "500-streams-MiB")
	b.ReportMetric(idle, "idle-MiB")
	b.ReportMetric(direct.median()*1000, "run-wait-ms")
	b.ReportMetric(0, "ns/op") // three sessions in one
}
