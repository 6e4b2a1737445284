//go:build e2e

package pages

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/record/recordtest"
	"conclave/engine/artifact"
)

// served serves the pages of a store.
func served(t *testing.T, store artifact.Store) string {
	t.Helper()
	server := httptest.NewServer(live.New(&hall.Connection{CLI: &hall.CLI{}, Store: store}, live.Options{}))
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
	r := recordtest.NewRun(t, "p1")
	r.Visit(2, "main", "An old silent pond", "")
	r.Visit(5, "decide", "A frog jumps into the pond", "consensus")
	r.Visit(1, "main", "Splash! Silence again.", "")
	r.Visit(1, "export", "An old silent pond", "")
	r.End("# A haiku\n\nAn old silent pond")
	dir, _ := recordtest.Scenario(t)
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	of := served(t, r.Store)
	return []string{of + "/pipelines/p1", of + "/", served(t, store) + "/scenarios/r1"}
}

// The pages of other kinds fit a small screen, log nothing and have no serious findings of axe, in
// light and in dark.
func TestPage_others(t *testing.T) {
	t.Parallel()
	axe := axeScript(t)
	for _, address := range others(t) {
		b := open(t, address, 400)
		require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth`), 400, address)
		eval[bool](b, axe)
		for _, scheme := range []string{"light", "dark"} {
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			require.NoError(t, err)
			require.Empty(t, serious(b), "%s, %s", address, scheme)
		}
		b.quiet()
	}
}

// A printed page has its texts, names the compared answers, has no controls and fits the paper.
func TestPage_print(t *testing.T) {
	t.Parallel()
	b := open(t, written(t, recordtest.ThreeRounds(t)), 800)
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	require.NoError(t, err)
	const shown = `.map((e) => e.id || e.className || e.tagName).filter(Boolean)`
	require.Empty(t, eval[[]string](b, `[...document.querySelectorAll("nav, button, .steer, .find, #glossary, footer")].filter((e) => e.checkVisibility())`+shown))
	require.True(t, eval[bool](b, `document.querySelector(".pick").checkVisibility()`))
	require.True(t, eval[bool](b, `[...document.querySelectorAll(".one, .step")].every((e) => getComputedStyle(e).contentVisibility === "visible")`))
	require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth`), 800)
}
