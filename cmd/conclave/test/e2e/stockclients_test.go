//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stockClient is a client of Temporal that knows nothing of conclave.
type stockClient struct {
	start, query, signal, cancel, describe func(id string, args ...string) output
}

// signalFlags are the flags for a signal's name and its input, if it has one.
func signalFlags(a []string) []string {
	if len(a) == 1 {
		return []string{"--name", a[0]}
	}
	return []string{"--name", a[0], "--input", a[1]}
}

// temporalCLI is the temporal command at an address.
func (c *e2eCLI) temporalCLI(at string) stockClient {
	run := func(verb string, flags func(args []string) []string) func(string, ...string) output {
		return func(id string, args ...string) output {
			return c.temporal(append([]string{"workflow", verb, "--address", at, "--workflow-id", id}, flags(args)...)...)
		}
	}
	return stockClient{
		start: run("start", func(a []string) []string {
			return []string{"--task-queue", "conclave", "--type", a[0], "--input", a[1]}
		}),
		query:    run("query", func(a []string) []string { return []string{"--type", a[0]} }),
		signal:   run("signal", signalFlags),
		cancel:   run("cancel", func([]string) []string { return nil }),
		describe: run("describe", func([]string) []string { return nil }),
	}
}

// tctl is the former command-line client of Temporal, which some clusters still use.
func (c *e2eCLI) tctl(at string) stockClient {
	program := binary(c.t, "TCTL_BIN")
	run := func(verb string, flags func(args []string) []string) func(string, ...string) output {
		return func(id string, args ...string) output {
			return c.run(program, append([]string{"--address", at, "workflow", verb, "--workflow_id", id}, flags(args)...)...)
		}
	}
	return stockClient{
		start: run("start", func(a []string) []string {
			return []string{"--taskqueue", "conclave", "--workflow_type", a[0], "--input", a[1]}
		}),
		query:    run("query", func(a []string) []string { return []string{"--query_type", a[0]} }),
		signal:   run("signal", signalFlags),
		cancel:   run("cancel", func([]string) []string { return nil }),
		describe: run("describe", func([]string) []string { return nil }),
	}
}

// The temporal CLI and tctl start, query, signal and cancel workflows of every type.
func TestStockClientsOfEveryType(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var script []reply
	for range 40 { // no reply arrives while the workflows run
		script = append(script, answer("Too late.").during(func() { <-hold }))
	}
	m := newModelServer(t, map[string][]reply{"model-a": script})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	dev := c.start("dev", "--worker-config", c.file("worker.yaml", fmt.Sprintf(`
providers: {house: {base_url: "%s/v1"}}
teams: {default: {agents: [{id: agent_a, backend: {provider: house, model: model-a}}]}}
`, m.URL)))
	at := address(t, dev)
	const agent = `{"id":"agent_a","backend":{"provider":"house","model":"model-a"}}`
	types := map[string]struct{ input, begun, state string }{
		"Session": {`{"query":"Long?"}`, "round 1", "Long?"},
		"Pipeline": {
			`{"request":"Long?","config":{"start":"main","agents":[` + agent + `],"steps":[{"name":"main"}]}}`, "main begins", "Long?",
		},
		"Scenario": {
			`{"plan":{"slug":"open","title":"Open","steps":[{"id":"01","title":"Open","file":"01-open.md"}]},"files":{"01-open.md":"Open it."}}`,
			"started", "01-open.md",
		},
	}
	for name, client := range map[string]stockClient{"temporal": c.temporalCLI(at), "tctl": c.tctl(at)} {
		for kind, tt := range types {
			t.Run(name+" "+kind, func(t *testing.T) {
				id := name + "-" + strings.ToLower(kind)
				require.Equal(t, 0, client.start(id, kind, tt.input).code)
				shows := func(text string, ask func() output) {
					t.Helper()
					require.Eventually(t, func() bool { return strings.Contains(ask().stdout, text) }, 30*time.Second, 200*time.Millisecond)
				}
				timeline := func() output { return client.query(id, "timeline") }
				shows(tt.begun, timeline)
				require.Contains(t, client.query(id, "state").stdout, tt.state)
				require.Equal(t, 0, client.signal(id, "pause").code)
				shows("paused", timeline)
				require.Equal(t, 0, client.signal(id, "say", `{"txet":"Hurry."}`).code)
				shows("did you mean text?", timeline)
				require.Equal(t, 0, client.signal(id, "resume").code)
				shows("resumed", timeline)
				require.Equal(t, 0, client.cancel(id).code)
				shows("ancel", func() output { return client.describe(id) })
			})
		}
	}
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}
