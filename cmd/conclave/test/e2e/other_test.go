//go:build e2e

package e2e

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/files/artifact"
)

// servedPage serves the pages of a store.
func servedPage(t *testing.T, store artifact.Store) string {
	t.Helper()
	server := httptest.NewServer(web.New(&cli.Connection{CLI: &cli.CLI{}, Store: store}, web.Options{}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// others are the addresses of pages of each other kind: a pipeline's run, a scenario's run, and
// the list.
func others(t *testing.T) []string {
	t.Helper()
	r := stage.NewPipelineRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	r.Visit(5, "decide", "A frog jumps into the pond", "consensus")
	r.Visit(1, "main", "Splash! Silence again.", "")
	r.Visit(1, "export", "An old silent pond", "")
	r.End("# A haiku\n\nAn old silent pond")
	dir, _ := stage.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	of := servedPage(t, r.Store)
	return []string{of + "/pipelines/p1", of + "/", of + "/nothing", servedPage(t, store) + "/scenarios/r1"}
}

// The pages of other kinds fit a small screen, log nothing, and axe finds nothing, in light and in dark.
func TestPage_others(t *testing.T) {
	t.Parallel()
	axe := axeScript(t)
	for _, address := range others(t) {
		b := open(t, address, 400)
		require.LessOrEqual(t, pageEval[int](b, `document.documentElement.scrollWidth`), 400, address)
		pageEval[bool](b, axe)
		for _, scheme := range []string{"light", "dark"} {
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			require.NoError(t, err)
			require.Empty(t, violations(b), "%s, %s", address, scheme)
		}
		if !strings.HasSuffix(address, "/nothing") { // the browser itself logs a 404
			b.quiet()
		}
	}
}

// A printed page has its texts, names the compared answers, has no controls and fits the paper.
func TestPage_print(t *testing.T) {
	t.Parallel()
	b := open(t, written(t, stage.ThreeRounds(t)), 800)
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	require.NoError(t, err)
	const shown = `.map((e) => e.id || e.className || e.tagName).filter(Boolean)`
	require.Empty(t, pageEval[[]string](b, `[...document.querySelectorAll("nav, button, .tools, .actions, .commands, .find, #glossary, footer")].filter((e) => e.checkVisibility())`+shown))
	require.True(t, pageEval[bool](b, `document.querySelector(".panel").checkVisibility()`))
	require.True(t, pageEval[bool](b, `[...document.querySelectorAll(".one, .step")].every((e) => getComputedStyle(e).contentVisibility === "visible")`))
	require.LessOrEqual(t, pageEval[int](b, `document.documentElement.scrollWidth`), 800)
}
