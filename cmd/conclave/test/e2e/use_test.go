//go:build e2e

package e2e

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/coordination"
)

func TestPage_keyboard(t *testing.T) {
	t.Parallel()
	b := open(t, written(t, stage.ThreeRounds(t)), 1600)
	const focused = `document.activeElement.parentElement.id`
	b.key("j")
	require.Equal(t, "step-agent_a-001", pageEval[string](b, focused))
	b.key("jj")
	require.Equal(t, "step-agent_c-001", pageEval[string](b, focused))
	b.key("k")
	require.Equal(t, "step-agent_b-001", pageEval[string](b, focused))
	b.key(kb.Enter)
	b.eventually(`document.getElementById("step-agent_b-001").open`)
	b.key("/")
	require.Equal(t, "search", pageEval[string](b, `document.activeElement.id`))
	pageEval[bool](b, `(() => { document.getElementById("search").value = ""; return true })()`) // the protocol enters text that a key press could not
	b.key("rejected: no_tool_calls")
	require.Equal(t, "rejected: no_tool_calls", pageEval[string](b, `document.getElementById("search").value`))
	require.Equal(t, "1 found", pageEval[string](b, `document.getElementById("matches").innerText`))
	require.Equal(t, 1, pageEval[int](b, `[...document.querySelectorAll("details.step, details.one")].filter((d) => !d.hidden).length`))
	pageEval[bool](b, `(() => { document.activeElement.blur(); return true })()`)
	b.key("?")
	b.eventually(`document.getElementById("help").open`)
	b.key(kb.Escape)
	b.eventually(`!document.getElementById("help").open`)
	pageEval[bool](b, `(() => { document.getElementById("all-compared").open = true; document.getElementById("only").focus(); return true })()`)
	b.key("?") // a checkbox takes no text
	b.eventually(`document.getElementById("help").open`)
	b.quiet()
}

func TestPage_compare(t *testing.T) {
	t.Parallel()
	b := open(t, written(t, stage.ThreeRounds(t)), 1600)
	const text = `document.getElementById("differences").innerText`
	pageEval[bool](b, `(() => { document.getElementById("all-compared").open = true; return true })()`)
	b.eventually(text + `.includes("− One file.")`)
	require.Contains(t, words(pageEval[string](b, text)), "− One file. + One file, with WAL")
	require.NotContains(t, pageEval[string](b, text), "Use SQLite.", "only what differs")
	pick := func(id, label string) {
		pageEval[bool](b, `(() => { const s = document.getElementById("`+id+`"); s.value = "`+label+`"; s.dispatchEvent(new Event("change", {bubbles: true})); return true })()`)
	}
	pick("left", "agent3.2")
	pick("right", "agent3.1")
	b.eventually(text + `.includes("+ One file.")`)
	b.eventually(text + `.includes("− CREATE TABLE sale (id INTEGER PRIMARY KEY);")`)
	require.Contains(t, pageEval[string](b, text), "main.go removed")
	require.NotContains(t, pageEval[string](b, text), "README.md", "its content is the same")
	pageEval[bool](b, `(() => { document.getElementById("only").click(); return true })()`)
	b.eventually(text + `.includes("Use SQLite.")`)
	b.quiet()
}

// The bar stays in sight, marks the section that is read and changes the theme; an open step has an outline.
func TestPage_frame(t *testing.T) {
	t.Parallel()
	b := open(t, written(t, stage.ThreeRounds(t)), 1600)
	const here = `document.querySelector(".tabs .here")?.innerText`
	b.eventually(here + ` === "Decision"`)
	pageEval[bool](b, `(() => { document.querySelector('.tabs a[href="#steps"]').click(); return true })()`)
	b.eventually(here + ` === "Steps"`)
	require.Zero(t, pageEval[int](b, `Math.round(document.getElementById("head").getBoundingClientRect().top)`))
	require.True(t, pageEval[bool](b, `document.getElementById("outline").hidden`))
	pageEval[bool](b, `(() => { document.getElementById("step-agent_c-001").open = true; return true })()`)
	b.eventually(`!document.getElementById("outline").hidden`)
	require.Contains(t, pageEval[string](b, `document.getElementById("outline").innerText`), "rejected: no_tool_calls")
	const ground = `getComputedStyle(document.body).backgroundColor`
	before := pageEval[string](b, ground)
	b.key("t")
	require.NotEqual(t, before, pageEval[string](b, ground))
	b.key("t")
	require.Equal(t, before, pageEval[string](b, ground))
	b.quiet()
}

// Without its script the page can be read: the answer, the votes, the reasons, and what is folded.
func TestPage_withoutScript(t *testing.T) {
	t.Parallel()
	b := open(t, "about:blank", 1600)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(b.ctx, chromedp.Navigate(written(t, stage.ThreeRounds(t)))))
	shown := words(pageEval[string](b, `document.body.innerText`))
	for _, want := range []string{"The decision: agent3.2, by agent_c", "Votes 3 of 3 fresh", "WAL answers my worry about concurrent writes.", "moved from agent2.1 after seeing agent3.2", "3 files"} {
		require.Contains(t, shown, want)
	}
	require.Empty(t, pageEval[[]string](b, `[...document.querySelectorAll("#theme, .pick")].filter((e) => e.checkVisibility()).map((e) => e.id || e.className)`))
}

// A link to a folded part opens it.
func TestPage_links(t *testing.T) {
	t.Parallel()
	b := open(t, written(t, stage.ThreeRounds(t))+"#event-9", 1600)
	b.eventually(`document.getElementById("events").open`)
	pageEval[bool](b, `(() => { document.querySelector('#board a[href="#answer-agent1.1"]').click(); return true })()`)
	b.eventually(`document.getElementById("answer-agent1.1").open`)
	broken := pageEval[[]string](b, `[...document.querySelectorAll('a[href^="#"]')].map((a) => decodeURIComponent(a.getAttribute("href").slice(1))).filter((id) => !document.getElementById(id))`)
	require.Empty(t, broken)
}

// Nothing is wider than a small screen, except elements that scroll by themselves.
func TestPage_narrow(t *testing.T) {
	t.Parallel()
	for _, p := range []*stage.Play{stage.ThreeRounds(t), stage.TwentySix(t)} {
		b := open(t, written(t, p), 400)
		require.LessOrEqual(t, pageEval[int](b, `document.documentElement.scrollWidth`), 400)
		b.quiet()
	}
}

// axeScript is the script of axe-core.
func axeScript(t *testing.T) string {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join(os.Getenv("CONCLAVE_NPM"), "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err, "CONCLAVE_NPM is the directory with the packages of .ci/npm")
	return string(axe) + ";true"
}

// violations are the findings of axe.
func violations(b *tab) []string {
	return pageEval[[]string](b, `axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")))`)
}

// axe finds nothing, in light and in dark, with everything open.
func TestPage_accessible(t *testing.T) {
	axe := axeScript(t)
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			b := open(t, written(t, stage.ThreeRounds(t)), 1600)
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			require.NoError(t, err)
			pageEval[bool](b, `(() => { for (const d of document.querySelectorAll("details")) d.open = true; return true })()`)
			pageEval[bool](b, axe)
			require.Empty(t, violations(b))
		})
	}
}

// A page follows its session: what the reader has opened stays open, nothing appears twice.
func TestPage_live(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	h, path := web.Directory("s1", record.InDirectory(p.Store, nil))
	server := httptest.NewServer(h)
	defer server.Close()
	b := open(t, server.URL+path, 1600)
	require.Contains(t, pageEval[string](b, `document.getElementById("decision").innerText`), "At work: agent_a and agent_b.")
	pageEval[bool](b, `(() => { document.getElementById("step-agent_a-001").open = true; document.getElementById("events").open = true; return true })()`)
	p.Answer(1, "agent_a", "Because.", nil)
	b.eventually(`!!document.getElementById("answer-agent1.1")`)
	require.True(t, pageEval[bool](b, `document.getElementById("step-agent_a-001").open && document.getElementById("events").open`))
	b.eventually(`document.getElementById("step-agent_a-001").innerText.includes("results: accepted as new_answer")`)

	shows := func(hidden string) {
		pageEval[bool](b, `Object.defineProperty(document, "hidden", {value: `+hidden+`, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`)
	}
	shows("true")
	require.True(t, pageEval[bool](b, `source.readyState === EventSource.CLOSED`), "a hidden page holds no connection")
	p.Say(1, "", "Think of the weather.")
	shows("false")
	b.eventually(`document.getElementById("facts").innerText.includes("Think of the weather.")`)

	server.CloseClientConnections()
	p.Answer(1, "agent_b", "Why not?", nil)
	p.Vote(1, "agent_a", "agent_b", "It is.")
	p.Vote(1, "agent_b", "agent_b", "Mine.")
	b.eventually(`document.getElementById("decision").innerText.includes("The decision: agent2.1, by agent_b")`)
	require.Equal(t, 4, pageEval[int](b, `document.querySelectorAll("#step-list > details").length`))
	require.Equal(t, pageEval[int](b, `document.querySelectorAll("[id]").length`), pageEval[int](b, `new Set([...document.querySelectorAll("[id]")].map((e) => e.id)).size`))
}
