//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// told is a receiver of notices that accepts what the ecosystem's library verifies. The first delivery of each
// notice is lost.
type told struct {
	*httptest.Server
	mu      sync.Mutex
	seen    map[string]int
	notices chan map[string]string
}

func newReceiver(t *testing.T) *told {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(webhookSecret)
	require.NoError(t, err)
	r := &told{seen: map[string]int{}, notices: make(chan map[string]string, 10)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var notice map[string]string
		if wh.Verify(body, req.Header) != nil || json.Unmarshal(body, &notice) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		id := req.Header.Get("webhook-id")
		if r.seen[id]++; r.seen[id] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.notices <- notice
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *told) next(t *testing.T) map[string]string {
	t.Helper()
	select {
	case n := <-r.notices:
		return n
	case <-time.After(2 * time.Minute):
		require.Fail(t, "nobody was told")
		return nil
	}
}

// The nightly report of docs/automation.md: a schedule starts a session with the files that a source has then,
// and a receiver is told of the decision, signed. A signed delivery that comes three times starts one session.
func TestNightlyReport(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	c := newCLI(t, "NOTIFY_URL="+receiver.URL+"/conclave", "NOTIFY_SECRET="+webhookSecret, "ISSUES_SECRET="+webhookSecret)
	site := filepath.Join(c.home, "site")
	require.NoError(t, os.Mkdir(site, 0o700))
	c.file("site/report.md", "of today\n")
	settings := c.file("worker.yaml", "sources: {site: {dir: ./site}}\nnotify: [{url_env: NOTIFY_URL, secret_env: NOTIFY_SECRET, events: [decided, failed]}]\n")
	server := c.serve("--offline", "--worker-config", settings, "--hooks", c.file("hooks.yaml", "hooks: {issues: {secret_env: ISSUES_SECRET, query: 'Sort {{ .payload.title }}.', base: 'source:site'}}\n"))

	out := c.conclave("schedule", "create", "nightly", "--cron", "0 2 * * *", "--", "run", "--offline", "--base", "source:site", "What has changed?")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stderr, "here schedules fire only while a stack with a worker runs")
	c.file("site/report.md", "of tomorrow\n")
	triggered := c.conclave("schedule", "trigger", "nightly")
	require.Equal(t, 0, triggered.code, triggered.stderr)
	id := strings.TrimSpace(triggered.stdout)
	require.Regexp(t, `^nightly-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$`, id)
	require.Equal(t, 0, c.conclave("result", "--wait", id).code)
	require.Equal(t, "of tomorrow\n", c.conclave("files", id, "agent1.1", "report.md").stdout)
	notice := receiver.next(t)
	require.Equal(t, []string{"decided", id, "consensus", "What has changed?"}, []string{notice["type"], notice["id"], notice["status"], notice["question"]})
	require.Contains(t, notice["summary"], "Offline model")

	wh, err := standardwebhooks.NewWebhook(webhookSecret)
	require.NoError(t, err)
	var ids []string
	for range 3 {
		body, now := `{"title": "the first issue"}`, time.Now()
		signature, err := wh.Sign("msg_1", now, []byte(body))
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.base+"/hooks/issues", strings.NewReader(body))
		require.NoError(t, err)
		for name, value := range map[string]string{"webhook-id": "msg_1", "webhook-timestamp": strconv.FormatInt(now.Unix(), 10), "webhook-signature": signature} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		var reply struct{ ID string }
		require.NoError(t, json.NewDecoder(res.Body).Decode(&reply))
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		ids = append(ids, reply.ID)
	}
	require.Equal(t, []string{ids[0], ids[0], ids[0]}, ids)
	require.Equal(t, 0, c.conclave("result", "--wait", ids[0]).code)
	require.Equal(t, ids[0], receiver.next(t)["id"])

	require.Equal(t, 0, c.conclave("schedule", "delete", "nightly").code)
	require.Equal(t, "[]\n", c.conclave("schedule", "list", "--json").stdout)
}
