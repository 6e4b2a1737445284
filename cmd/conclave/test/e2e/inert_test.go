//go:build e2e

package e2e

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/coordination"
)

// attack is the script of every injection.
const attack = `window.hit=1`

// injections returns a hundred texts that would run a script, load something or leave their place
// if the page trusted them.
func injections() []string {
	shapes := []string{
		`<script>%s</script>`, `<img src=x onerror="%s">`, `<svg onload="%s">`, `<svg><script>%s</script></svg>`, `<iframe srcdoc="<script>parent.%s</script>">`,
		`<body onload="%s">`, `<details open ontoggle="%s">`, `<input autofocus onfocus="%s">`, `<a href="javascript:%s">x</a>`, `[x](javascript:%s)`,
		`![x](javascript:%s)`, `<math><mtext></math><script>%s</script>`, `</pre><script>%s</script>`, `</title><script>%s</script>`,
		`</style><script>%s</script>`, `</script><script>%s</script>`, `--><script>%s</script>`, `]]><script>%s</script>`, `"><script>%s</script>`,
		`' onmouseover='%s`, `" autofocus onfocus="%s`, "`${%s}`", `{{%s}}`, `<object data="javascript:%s">`, `<embed src="javascript:%s">`,
	}
	frames := []string{`%s`, "# %s", "```html\n%s\n```", "| a | b |\n|---|---|\n| %s | x |"}
	var all []string
	for _, shape := range shapes {
		for _, frame := range frames {
			all = append(all, fmt.Sprintf(frame, fmt.Sprintf(shape, attack)))
		}
	}
	return all
}

// A hundred injections in every text of a session have no effect, on a page from a file and on a
// live one.
func TestPage_inert(t *testing.T) {
	all := injections()
	require.Len(t, all, 100)
	bad := strings.Join(all, "\n\n")
	p := stage.NewRecord(t, bad, coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	p.Reject(1, "agent_a", "<script>"+attack+"</script>", bad)
	p.Tool(1, "agent_a", "<img src=x onerror="+attack+">", bad, bad)
	p.Answer(1, "agent_a", bad, map[string]string{"a<script>" + attack + "<.html": bad, "x.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="` + attack + `"/>`, "y.js": bad})
	p.Answer(1, "agent_b", bad+" again", map[string]string{"y.js": "// " + bad})
	p.Say(1, "", bad)
	p.Update("agent_a")
	p.Update("agent_b")
	p.Vote(1, "agent_a", "agent_b", bad)
	p.Vote(1, "agent_b", "agent_b", bad)
	h, path := web.Directory("s1", record.InDirectory(p.Store, nil))
	server := httptest.NewServer(h)
	defer server.Close()
	for _, address := range []string{written(t, p), server.URL + path} {
		b := open(t, address, 1000)
		pageEval[bool](b, `(() => { for (const d of document.querySelectorAll("details")) d.open = true; return true })()`)
		b.eventually(`[...document.querySelectorAll("details[data-source] .load")].every((d) => d.childNodes.length > 0)`)
		pageEval[bool](b, `(() => { for (const e of document.querySelectorAll("main *")) for (const n of ["mouseover", "focus", "click"]) if (!e.closest("a, button, form, summary")) e.dispatchEvent(new Event(n, {bubbles: true})); return true })()`)
		require.False(t, pageEval[bool](b, `"hit" in window`))
		require.Equal(t, 1, pageEval[int](b, `document.scripts.length`))
		require.Empty(t, pageEval[[]string](b, `[...document.querySelectorAll("main :is(iframe, object, embed, img, script, style, math, link, meta, base)")].map((e) => e.outerHTML.slice(0, 200))`))
		require.Zero(t, pageEval[int](b, `[...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length`))
		require.Empty(t, pageEval[[]string](b, `[...document.querySelectorAll("a[href]")].map((a) => a.getAttribute("href")).filter((to) => !/^(#|\/|https?:|mailto:)/.test(to))`))
		require.Zero(t, pageEval[int](b, `performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin)).length`))
		b.quiet()
	}
}
