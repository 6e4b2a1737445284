//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/page"
)

// browser is the one Chromium of the tests; each test has a tab of its own.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
}

// startBrowser starts Chromium without a sandbox of its own, which root cannot have.
func startBrowser(t testing.TB) context.Context {
	t.Helper()
	browser.once.Do(func() {
		dir, err := os.MkdirTemp("", "conclave-pages-*")
		require.NoError(t, err)
		options := []chromedp.ExecAllocatorOption{chromedp.Headless, chromedp.NoSandbox, chromedp.UserDataDir(dir)}
		for _, flag := range []string{"disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
			options = append(options, chromedp.Flag(flag, true))
		}
		if chromium, err := exec.LookPath("chromium"); err == nil {
			options = append(options, chromedp.ExecPath(chromium))
		}
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(allocator)
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
		browser.ctx = ctx
		browser.stop = func() {
			end()
			stop()
			_ = os.RemoveAll(dir)
		}
	})
	require.NotNil(t, browser.ctx, "Chromium did not start")
	return browser.ctx
}

// tab is a tab of the browser.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string // exceptions, and messages to the console
}

// open opens an address in a tab of a width.
func open(t testing.TB, address string, width int64) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(startBrowser(t))
	t.Cleanup(closeTab)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)))
	go b.listen(chromedp.Console(ctx))
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(address)))
	return b
}

// listen collects exceptions and messages until the tab is closed.
func (b *tab) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return
		}
		b.mu.Lock()
		b.problems = append(b.problems, string(m.Type)+": "+m.Text)
		b.mu.Unlock()
	}
}

// quiet requires that the page has thrown and logged nothing.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.problems)
}

// pageEval evaluates an expression in the page.
func pageEval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// key presses keys.
func (b *tab) key(keys string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// eventually waits until an expression is true.
func (b *tab) eventually(expression string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return pageEval[bool](b, expression) }, time.Minute, 50*time.Millisecond, expression)
}

// written is the address of the page of a played session, written to a file.
func written(t testing.TB, p *stage.Play) string {
	t.Helper()
	var html bytes.Buffer
	require.NoError(t, page.Write(t.Context(), &html, record.NewReader(p.Store, p.Layout, nil), "", stage.Began.Add(time.Hour)))
	file := filepath.Join(t.TempDir(), "index.html")
	require.NoError(t, os.WriteFile(file, html.Bytes(), 0o600))
	return "file://" + filepath.ToSlash(file)
}

// words is a text on one line.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }
