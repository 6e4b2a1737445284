//go:build e2e

package e2e

import (
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/web"
)

// thousand serves a session of a thousand steps and returns the address of its page.
func thousand(b *testing.B) (*stage.Play, string) {
	b.Helper()
	p := stage.Thousand(b)
	h, path := web.Directory("s1", record.InDirectory(p.Store, nil))
	server := httptest.NewServer(h)
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p, server.URL + path
}

// metered is an empty tab that counts the processor time of its page.
func metered(b *testing.B) *tab {
	b.Helper()
	t := open(b, "about:blank", 1600)
	_, err := chromedp.Call(t.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	require.NoError(b, err)
	return t
}

// worked is the processor time of the page so far, in milliseconds: script, layout and painting.
func (b *tab) worked() float64 {
	b.t.Helper()
	all, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	require.NoError(b.t, err)
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return 1000 * m.Value
		}
	}
	require.FailNow(b.t, "the browser does not tell its TaskDuration")
	return 0
}

const loaded = `document.readyState === "complete" && !!document.getElementById("step-agent_j-100")`

// BenchmarkOpen opens a thousand steps.
func BenchmarkOpen(b *testing.B) {
	_, address := thousand(b)
	worked, n := 0.0, 0
	for b.Loop() {
		t := metered(b)
		before := t.worked()
		require.NoError(b, chromedp.Do(t.ctx, chromedp.Navigate(address)))
		t.eventually(loaded)
		worked += t.worked() - before
		n++
		require.NoError(b, chromedp.Do(t.ctx, chromedp.Navigate("about:blank"))) // ends the connection, of which a browser has six
	}
	b.ReportMetric(worked/float64(n), "cpu-ms/open")
}

// shows defines a function that waits until a number of answers are shown and painted. It does
// not poll, which would count as work of the page.
const pageShows = `window.shows = (n) => new Promise((shown) => {
  const list = document.getElementById("answer-list");
  const look = () => { if (list.childElementCount >= n) { watch.disconnect(); requestAnimationFrame(() => setTimeout(() => shown(true))); } };
  const watch = new MutationObserver(look);
  watch.observe(list, { childList: true });
  look();
}), true`

// BenchmarkFollow shows an answer that is added to such a session.
func BenchmarkFollow(b *testing.B) {
	p, address := thousand(b)
	t := metered(b)
	require.NoError(b, chromedp.Do(t.ctx, chromedp.Navigate(address)))
	t.eventually(loaded)
	pageEval[bool](t, pageShows)
	before, n := t.worked(), 0
	for b.Loop() {
		p.Answer(1, "agent_"+string(rune('a'+n%10)), "Better still.", nil)
		n++
		require.True(b, pageEval[bool](t, `shows(`+strconv.Itoa(550+n)+`)`))
	}
	b.ReportMetric((t.worked()-before)/float64(n), "cpu-ms/change")
}
