//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// crossing is a model server for two agents. Model a sends half of a sentence and answers when it
// is released. Model b refuses the first request and answers the next. Later requests wait.
type crossing struct {
	release chan struct{}
	asked   [2]atomic.Int64
}

func (c *crossing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	agent, answer := 0, "Take a boat."
	if strings.Contains(string(body), `"model":"b"`) {
		agent, answer = 1, "Swim."
		if c.asked[1].Add(1) == 1 {
			http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta, reason string) {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, reason)
		_ = http.NewResponseController(w).Flush()
	}
	if agent == 0 {
		send(`{"role":"assistant","content":"Let me think about boats "}`, "null")
		select {
		case <-c.release:
		case <-r.Context().Done():
			return
		}
	}
	if strings.Contains(string(body), `"vote"`) || c.asked[agent].Add(1) > 3 {
		<-r.Context().Done() // the test decides before anybody votes
		return
	}
	send(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"new_answer","arguments":"{\"content\":\"%s\"}"}}]}`, answer), "null")
	send("{}", `"tool_calls"`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// command is a conclave command with a home and a data directory of its own.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	binary := os.Getenv("CONCLAVE_BIN")
	require.NotEmpty(t, binary, "CONCLAVE_BIN is the built binary")
	cmd := exec.CommandContext(t.Context(), binary, append(args, "--data-dir", filepath.Join(dir, "data"))...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "TEMPORAL_ADDRESS=", "OPENAI_API_KEY=")
	cmd.Dir = dir
	return cmd
}

var pagesLine = regexp.MustCompile(`^Pages +(http://\S+)`)

// servedPages starts `conclave serve` and returns the address of its pages.
func servedPages(t *testing.T, dir string) string {
	t.Helper()
	cmd := command(t, dir, "serve", "--listen", "127.0.0.1:0", "--config", "team.yaml")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // after the end of the test's context
		_ = cmd.Wait()
		// The directory can be removed once the stack has ended.
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, time.Minute, 50*time.Millisecond)
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := pagesLine.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return found[1]
		}
	}
	require.FailNow(t, "serve has ended")
	return ""
}

// comes waits until an expression is true, on this page or on one that the browser is loading.
func (b *tab) comes(expression string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && is
	}, 2*time.Minute, 50*time.Millisecond, expression)
}

// textOf is the text of the page, for messages.
func textOf(b *tab) string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 4000)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// submitTo submits the form of a request once it is there.
func (b *tab) submitTo(verb string) {
	b.t.Helper()
	form := fmt.Sprintf(`document.querySelector('form[action$="/%s"]')`, verb)
	b.comes("!!" + form)
	pageEval[bool](b, fmt.Sprintf(`(() => { setTimeout(() => %s.requestSubmit()); return true })()`, form))
}

// submit submits the form of a request and waits for the notice.
func (b *tab) submit(verb, notice string) {
	b.t.Helper()
	b.submitTo(verb)
	b.comes(`document.readyState === "complete" && document.URL.includes("?n=")`)
	b.comes(fmt.Sprintf(`document.querySelector(".notice:not(.failed)")?.innerText.includes(%q) ?? false`, notice))
}

// A person follows and steers a session from its page: the reply under way, a message, a pause,
// a retry, and the decision.
func TestPage_steer(t *testing.T) {
	t.Parallel()
	model := &crossing{release: make(chan struct{})}
	server := httptest.NewServer(model)
	t.Cleanup(server.CloseClientConnections)
	dir := t.TempDir()
	team := fmt.Sprintf("agents:\n  - {id: agent_a, backend: {type: openai, model: a, base_url: %[1]s/v1}}\n  - {id: agent_b, backend: {type: openai, model: b, base_url: %[1]s/v1}}\n", server.URL)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "team.yaml"), []byte(team), 0o600))
	pages := servedPages(t, dir)
	out, err := command(t, dir, "start", "--config", "team.yaml", "--session-id", "s1", "How do I cross the river?").CombinedOutput()
	require.NoError(t, err, string(out))

	b := open(t, pages+"/sessions/s1", 1600)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(textOf(b))
		}
	})
	const step = `document.getElementById("step-agent_a-001")`
	b.comes("!!" + step)
	pageEval[bool](b, `(() => { `+step+`.open = true; return true })()`)
	b.comes(step + `.innerText.includes("Let me think about boats")`)

	pageEval[bool](b, `(() => { document.getElementById("text-say").value = "The river is high."; return true })()`)
	b.submit("say", "sent; agents read it at the next safe point")
	b.comes(`document.getElementById("why").innerText.includes("The river is high.")`)
	b.submit("pause", "paused, nothing is lost")
	b.comes(`document.querySelector("#head .chip").innerText === "paused"`)
	b.submit("resume", "resumed")
	b.submit("retry", "retrying")
	b.comes(`!!document.getElementById("answer-agent2.1")`)
	close(model.release)
	b.comes(`!!document.getElementById("answer-agent1.1")`)
	b.submit("finish", "deciding with the answers so far")
	b.comes(`document.querySelector("#head .chip").innerText.startsWith("finished")`)
	b.comes(`!document.querySelector('form[action$="/finish"]')`)

	out, err = command(t, dir, "start", "--config", "team.yaml", "--session-id", "s2", "And back?").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, chromedp.Do(b.ctx, chromedp.Navigate(pages+"/sessions/s2")))
	b.comes(`!!document.getElementById("answer-agent1.1")`)
	b.comes(`document.querySelector("#act-finish p")?.textContent.includes("agent1.1 of agent_a would win now, with 0 of 2 votes.") ?? false`)
	b.submit("cancel", "asked to end")
	b.comes(`document.querySelector("#head .chip").innerText === "cancelled"`)
	pageEval[bool](b, `(() => { document.querySelector('a[rel="next"]').click(); return true })()`)
	b.comes(`location.pathname === "/sessions/s1"`)
}

// A person looks at a change and applies it from the page, asks on, and asks something else.
func TestPage_goOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "team.yaml"), []byte("agents:\n  - {id: agent_a, backend: {type: offline}}\n  - {id: agent_b, backend: {type: offline}}\n"), 0o600))
	project := filepath.Join(dir, "project")
	require.NoError(t, os.Mkdir(project, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(project, "README.md"), []byte("# A project\n"), 0o600))
	pages := servedPages(t, dir)
	out, err := command(t, dir, "run", "--config", "team.yaml", "--base", project, "--session-id", "s1", "Tabs or spaces?").CombinedOutput()
	require.NoError(t, err, string(out))

	b := open(t, pages+"/sessions/s1", 1600)
	b.comes(`document.getElementById("change").innerText.includes("answer.md new")`)
	b.submit("apply", "applied to "+project+": 1 file changed")
	require.FileExists(t, filepath.Join(project, "answer.md"))

	pageEval[bool](b, `(() => { document.getElementById("text-continue").value = "And in Go?"; return true })()`)
	b.submitTo("continue")
	b.comes(`document.querySelector("h1").innerText === "And in Go?" && document.getElementById("asked").innerText.includes("continues s1")`)
	b.comes(`!!document.querySelector("#head .chip.consensus, #head .chip.plurality")`)

	require.NoError(t, chromedp.Do(b.ctx, chromedp.Navigate(pages+"/")))
	pageEval[bool](b, `(() => { document.getElementById("text-ask").value = "Vi or emacs?"; return true })()`)
	b.submitTo("ask")
	b.comes(`document.querySelector("h1").innerText === "Vi or emacs?"`)
	b.comes(`!!document.querySelector("#head .chip.consensus, #head .chip.plurality")`)
}
