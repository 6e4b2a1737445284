package stack

import (
	"fmt"
	"io"
	"path/filepath"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/localstack"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/engine/text"
	sessionflow "conclave/workflows/session"
)

// plainWriter removes control characters from log lines.
type plainWriter struct{ out io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, text.Terminal(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// served is the JSON output of dev. The keys of the store are only in stack.json.
type served struct {
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	TaskQueue       string `json:"task_queue"`
	UIAddress       string `json:"ui_address"`
	S3Endpoint      string `json:"s3_endpoint"`
	APIAddress      string `json:"api_address"` // address at which the teams are models
	Bucket          string `json:"bucket"`
	DataDir         string `json:"data_dir"`
	OtherUsers      bool   `json:"other_users"` // may use the servers
	Offline         bool   `json:"offline"`
}

func announce(conn *hall.Connection, api string, standard config.Team, source string, offline bool) error {
	s := conn.Stack
	if conn.Scripted() {
		return conn.PrintJSON(served{
			TemporalAddress: s.TemporalAddress, Namespace: s.Namespace, TaskQueue: conn.Queue, UIAddress: s.UIAddress,
			S3Endpoint: s.S3Endpoint, APIAddress: api, Bucket: s.Bucket, DataDir: s.DataDir, OtherUsers: s.OtherUsers, Offline: offline,
		})
	}
	_, err := fmt.Fprintf(conn.Stdout, `Pages       %s
Temporal    %s, namespace %s, task queue %s
Web UI      %s/namespaces/%s/workflows
S3          %s, bucket %s (keys in %s)
OpenAI API  %s/v1, model conclave
Data        %s
Users       %s
Team        default: %s from %s

Start a session:
  conclave run%s "…"
  temporal workflow start --address %s --task-queue %s --type %s --workflow-id s1 --input '{"query":"…"}'

Ctrl-C stops.
`,
		api, s.TemporalAddress, s.Namespace, conn.Queue, s.UIAddress, s.Namespace, s.S3Endpoint, s.Bucket, filepath.Join(s.DataDir, "stack.json"),
		api, s.DataDir, admitted(s), progress.Line(team.Describe(standard)), source,
		dataDirFlag(conn.CLI), s.TemporalAddress, text.ShellQuote(conn.Queue), sessionflow.Type)
	if conn.Metrics != nil {
		conn.Infof("metrics and health are served at metrics_address of --worker-config")
	}
	if offline {
		conn.Infof("%s", "offline: the default team uses the built-in deterministic model, no language model")
	}
	return err
}

// admitted describes who can use a stack and how to change that.
func admitted(s localstack.Stack) string {
	if s.OtherUsers {
		return "everybody on this machine, without a password (" + localstack.OtherUsersFlag + ")"
	}
	return "only you and root; " + localstack.OtherUsersFlag + " lets everybody on this machine in"
}

// dataDirFlag returns the flag with which other commands find this data directory.
func dataDirFlag(c *hall.CLI) string {
	if c.DataDir == "" {
		return ""
	}
	return " --data-dir " + text.ShellQuote(c.DataDir)
}
