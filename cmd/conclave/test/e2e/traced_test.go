//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// jaeger is a running Jaeger, which keeps traces in memory.
type jaeger struct{ http, grpc, query string }

// startJaeger starts the program in JAEGER_BIN. Without it the test is skipped.
func startJaeger(t *testing.T) jaeger {
	t.Helper()
	program := os.Getenv("JAEGER_BIN")
	if program == "" {
		t.Skip("there is no Jaeger; run make traces")
	}
	j := jaeger{http: freeAddress(t), grpc: freeAddress(t), query: freeAddress(t)}
	args := []string{"--collector.otlp.http.host-port=" + j.http, "--collector.otlp.grpc.host-port=" + j.grpc, "--query.http-server.host-port=" + j.query}
	for _, other := range []string{"admin.http", "collector.grpc-server", "collector.http-server", "query.grpc-server"} {
		args = append(args, "--"+other+".host-port="+freeAddress(t))
	}
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { return j.get("/api/services", nil) == nil }, time.Minute, 100*time.Millisecond, log)
	return j
}

// get decodes the data of a reply of Jaeger's API.
func (j jaeger) get(path string, data any) error {
	res, err := http.Get("http://" + j.query + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(&struct{ Data any }{data})
}

// jaegerTrace is a trace as Jaeger's API returns it.
type jaegerTrace struct {
	Spans []struct {
		SpanID, OperationName, ProcessID string
		References                       []struct{ SpanID string }
		Tags                             []struct {
			Key   string
			Value any
		}
	}
	Processes map[string]struct{ ServiceName string }
}

// tree counts the spans by the names of their parents and their own.
func (j jaegerTrace) tree() map[[2]string]int {
	names, tree := map[string]string{}, map[[2]string]int{}
	for _, s := range j.Spans {
		names[s.SpanID] = s.OperationName
	}
	for _, s := range j.Spans {
		parent := ""
		for _, r := range s.References {
			parent = names[r.SpanID]
		}
		tree[[2]string{parent, s.OperationName}]++
	}
	return tree
}

// Jaeger shows a session that two workers ran as one tree: session, steps, model calls, tools. It has tokens and no content.
func TestTracesInJaeger(t *testing.T) {
	t.Parallel()
	j := startJaeger(t)
	for protocol, endpoint := range map[string]string{"http/protobuf": j.http, "grpc": j.grpc} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			lost, asked, hold := held(answer("Lost."))
			model := newModelServer(t, map[string][]reply{"model-a": {
				write("plan.md", "# A private plan\n"), lost, answer("Answer A."), vote("agent1", "Mine."),
			}})
			t.Cleanup(func() { close(hold) })
			s := newSite(t)
			w := newClusterWorker(t, s, model, reviewers)
			service := "conclave-" + protocol
			w.cli.env = append(w.cli.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_SERVICE_NAME="+service)
			first := w.start()
			run := s.start("traced")
			<-asked
			require.NoError(t, first.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 0, first.ends(t))
			second := w.start()
			ended(t, run, "consensus")
			require.NoError(t, second.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 0, second.ends(t))

			var traces []jaegerTrace
			require.NoError(t, j.get("/api/traces?service="+service, &traces))
			require.Len(t, traces, 1)
			require.Equal(t, map[[2]string]int{
				{"", "invoke_workflow traced"}:                      1,
				{"invoke_workflow traced", "invoke_agent agent_a"}:  3, // the first step took two attempts
				{"invoke_agent agent_a", "chat model-a"}:            4,
				{"invoke_agent agent_a", "execute_tool write_file"}: 1,
			}, traces[0].tree())
			require.Len(t, traces[0].Processes, 2)
			text, err := json.Marshal(traces)
			require.NoError(t, err)
			require.Contains(t, string(text), `{"Key":"gen_ai.usage.input_tokens","Value":100}`)
			require.Contains(t, string(text), `{"Key":"error.type","Value":"cancelled"}`)
			require.Contains(t, string(text), `{"Key":"error.type","Value":"WorkerStopped"}`)
			require.Contains(t, string(text), `{"Key":"gen_ai.conversation.id","Value":"traced"}`)
			for _, private := range []string{"Which of us is right?", "private plan", "Answer A."} {
				require.NotContains(t, string(text), private)
			}
		})
	}
}
