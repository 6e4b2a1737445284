package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"golang.org/x/term"

	"conclave/engine/text"
	"conclave/worker/cluster"
	"conclave/workflows"
)

// CLI is one invocation of the command: its streams and the common flags.
type CLI struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Address, Namespace, Queue string
	Bucket, Prefix            string
	DataDir                   string
	Config                    string
	WorkerConfig              string   // configuration file of the worker in this process; set only by commands with the flag
	Models                    []string // models in place of a team's file; set only by commands with the flag
	Agents                    int      // members of a team of one such model; 0 if it is not given
	Shell                     string   // tools.shell of the team; empty for its own, auto only in a team without a file
	JSON, Automation          bool
	Data                      bool   // print the data of a result alone
	Version                   string // version of conclave
}

// Execute adds the common flags to root, executes one command line, and returns its exit code.
func (c *CLI) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	c.configureTree(root)
	root.SetArgs(append([]string{}, args...)) // Cobra replaces nil by the arguments of the process.
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	root.InitDefaultCompletionCmd(args...) // after the streams are set, because the command stores them
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		ShowFlags(completion)
	}
	return c.reportError(root.ExecuteContext(ctx))
}

func (c *CLI) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&c.Config, "config", "", "team configuration `FILE` (default ./conclave.yaml if present, else the built-in team of three)")
	f.StringVar(&c.Address, "address", "", "Temporal `HOST:PORT` of a cluster (default from TEMPORAL_ADDRESS or temporal.toml, else the local stack)")
	f.StringVar(&c.Namespace, "namespace", "", "Temporal `NAMESPACE` (default from TEMPORAL_NAMESPACE or temporal.toml, else default)")
	f.StringVar(&c.Queue, "task-queue", workflows.TaskQueue, "task queue `NAME`")
	f.StringVar(&c.Bucket, "bucket", "", "S3 `BUCKET` of a cluster's sessions; credentials and endpoint from AWS_*")
	f.StringVar(&c.Prefix, "prefix", "", "key `PREFIX` in the bucket")
	f.StringVar(&c.DataDir, "data-dir", "", "`DIR` of the local stack's files (default $XDG_DATA_HOME/conclave, else ~/.local/share/conclave)")
	f.BoolVar(&c.JSON, "json", false, "print JSON on stdout")
	f.BoolVar(&c.Automation, "automation", false, "no decoration, one line per event, the last line of stdout one JSON object")
}

// NamesTeam reports whether the command line has a team: a file, or models in place of one.
func (c *CLI) NamesTeam() bool { return c.Config != "" || len(c.Models) > 0 }

// Scripted reports whether the output is for a program.
func (c *CLI) Scripted() bool { return c.JSON || c.Automation }

// Interactive reports whether stderr is a terminal and the output is not for a program.
func (c *CLI) Interactive() bool {
	f, ok := c.Stderr.(*os.File)
	return ok && !c.Automation && term.IsTerminal(int(f.Fd()))
}

// Infof prints a line for people on stderr, without control characters.
func (c *CLI) Infof(format string, args ...any) {
	fmt.Fprintln(c.Stderr, text.Terminal(fmt.Sprintf(format, args...)))
}

// Summarize prints a line about the end of a run below an empty one. On a terminal that is too narrow
// the line is broken between its parts, which " · " separates.
func (c *CLI) Summarize(line string) {
	width, terminal := TerminalWidth(c.Stderr)
	var lines []string
	for part := range strings.SplitSeq(line, " · ") {
		last := len(lines) - 1
		if last < 0 || terminal && ansi.StringWidth(lines[last]+" · "+part) >= width {
			lines = append(lines, part)
			continue
		}
		lines[last] += " · " + part
	}
	c.Infof("\n%s", strings.Join(lines, "\n"))
}

// Warnf is like Infof, but prefixes the line with the name of the command.
func (c *CLI) Warnf(format string, args ...any) { c.Infof("conclave: "+format, args...) }

// CommandLine returns a command line that reaches the same target as this one.
func (c *CLI) CommandLine(command string, args ...string) string {
	words := []string{"conclave " + command}
	words = append(words, text.Each(args, text.ShellQuote)...)
	for _, f := range []struct{ name, value string }{
		{"address", c.Address},
		{"namespace", c.Namespace},
		{"bucket", c.Bucket},
		{"prefix", c.Prefix},
		{"data-dir", c.DataDir},
	} {
		if f.value != "" {
			words = append(words, "--"+f.name, text.ShellQuote(f.value))
		}
	}
	if c.Queue != workflows.TaskQueue {
		words = append(words, "--task-queue", text.ShellQuote(c.Queue))
	}
	return strings.Join(words, " ")
}

// PrintJSON prints a value on stdout: indented for --json, on one line for --automation.
func (c *CLI) PrintJSON(v any) error {
	var data []byte
	var err error
	if c.Automation {
		data, err = json.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return c.Print(string(EscapeControls(data)) + "\n")
}

// Print prints text on stdout. A failed write gives exit code 2, because the work is done but the
// output is incomplete.
func (c *CLI) Print(text string) error {
	if _, err := io.WriteString(c.Stdout, text); err != nil {
		return Exitf(ExitNoAnswer, "print the output: %w", err)
	}
	return nil
}

// EscapeControls escapes the C1 control characters in JSON, which terminals interpret.
func EscapeControls(data []byte) []byte {
	var b strings.Builder
	for _, r := range string(data) {
		if 0x7f <= r && r <= 0x9f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// Table aligns tab-separated cells and trims trailing spaces.
func Table(text string) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(table, text) // a builder does not fail
	_ = table.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// The exit codes of all commands.
const (
	ExitOK          = 0 // the command succeeded; a session has its answer
	ExitUsage       = 1 // wrong usage or configuration: nothing was started
	ExitNoAnswer    = 2 // started, but there is no answer: failed, cancelled, or still running
	ExitTimeout     = 3 // the session's time ran out
	ExitInterrupted = 4 // the command stopped watching; the session continues
)

// ExitError is an error with an exit code. If Err is nil, nothing more is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exitf returns an error with an exit code and a message.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// Exit returns an error with an exit code and no message, or nil for ExitOK.
func Exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &ExitError{Code: code}
}

// ExitCode returns the exit code for an error. An error without an exit code means that nothing was
// started.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitUsage
}

// reportError prints the error unless its message is empty, and returns its exit code.
func (c *CLI) reportError(err error) int {
	e, coded := errors.AsType[*ExitError](err)
	switch {
	case err == nil, coded && e.Err == nil:
	case !coded && errors.Is(err, context.Canceled):
		c.Warnf("interrupted before anything was started")
	default:
		c.Warnf("%s", cluster.Explain(err))
	}
	return ExitCode(err)
}

// freshPoll is the maximum age of a poll that shows a running worker. A poll takes up
// to a minute, and the clocks of two machines differ. The server remembers polls for
// five minutes.
const freshPoll = 2 * time.Minute

// lastPoll returns the newest poll of a task queue, or nil if the server knows of none.
func (conn *Connection) lastPoll(ctx context.Context, queue string, kind enumspb.TaskQueueType) (*taskqueuepb.PollerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return nil, err
	}
	var last *taskqueuepb.PollerInfo
	for _, p := range reply.GetPollers() {
		if last == nil || p.GetLastAccessTime().AsTime().After(last.GetLastAccessTime().AsTime()) {
			last = p
		}
	}
	return last, nil
}

func isFresh(poll *taskqueuepb.PollerInfo) bool {
	return poll != nil && time.Since(poll.GetLastAccessTime().AsTime()) < freshPoll
}

// Polls reports whether this process has a worker that polls a task queue. A command on a
// local stack has one for its own queue.
func (conn *Connection) Polls(queue string) bool { return !conn.Cluster && queue == conn.Queue }

// WarnIdle warns if no worker polls a task queue, and reports whether it warned.
func (conn *Connection) WarnIdle(ctx context.Context, queue string) bool {
	last, err := conn.lastPoll(ctx, queue+workflows.StepsSuffix, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil || isFresh(last) {
		return false
	}
	switch {
	case conn.Cluster:
		conn.Infof("%s, or check --task-queue", conn.noWorkerPolls(queue))
	case !conn.Polls(queue):
		conn.Infof("%s", conn.noWorkerPolls(queue))
	default:
		conn.Infof("no worker runs steps %s: the session continues during run, watch, dev or worker", conn.Target)
	}
	return true
}

// Silence explains why no worker of another process responds on a task queue, and how to start
// one. The text is empty if the server does not respond either. polled is false if no worker
// polls the queue, so waiting is pointless.
func (conn *Connection) Silence(ctx context.Context, queue string) (why string, polled bool) {
	switch last, err := conn.lastPoll(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW); {
	case err != nil:
		return "", true
	case isFresh(last):
		return fmt.Sprintf("no worker answers on the task queue %s %s; the last one to poll it was %s, %s ago: wait if it is busy, else %s",
			queue, conn.Target, last.GetIdentity(), time.Since(last.GetLastAccessTime().AsTime()).Truncate(time.Second), conn.startWorker(queue)), true
	}
	return conn.noWorkerPolls(queue), false
}

func (conn *Connection) noWorkerPolls(queue string) string {
	return fmt.Sprintf("no worker polls the task queue %s %s: %s", queue, conn.Target, conn.startWorker(queue))
}

// startWorker returns the advice to start a worker for a task queue. On a cluster the worker needs
// a bucket.
func (conn *Connection) startWorker(queue string) string {
	c := *conn.CLI
	c.Queue = queue
	command := "worker"
	if c.Bucket == "" && conn.Cluster {
		command += " --bucket BUCKET"
	}
	return "start one with `" + c.CommandLine(command) + "`"
}

// CanConfirm reports whether messages go to a person who can answer a question.
func (c *CLI) CanConfirm() bool {
	return !c.Scripted() && isTerminal(c.Stdin) && isTerminal(c.Stderr)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Confirm asks a question and reports whether the answer is yes. Any other answer is
// no. An interrupt returns context.Canceled.
func (c *CLI) Confirm(question string) (bool, error) {
	answer, err := c.Ask(question + " [y/N]")
	if errors.Is(err, io.EOF) {
		err = nil
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Ask asks a question and returns the line that answers it, without the space around it. An interrupt
// returns context.Canceled, the end of the input io.EOF.
func (c *CLI) Ask(question string) (string, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprint(c.Stderr, text.Terminal(question)+" ")
	answer, err := whileOpen(ctx, func() (string, error) { return bufio.NewReader(c.Stdin).ReadString('\n') })
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(c.Stderr)
		return "", context.Canceled
	case err != nil && answer == "":
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(answer), nil
}

// AskAfterWait asks a question after a long wait and returns the answer in lower case, which is empty
// at the end of the input. Input typed before the question is discarded.
func (c *CLI) AskAfterWait(question string) (string, error) {
	if tty, ok := c.Stdin.(*os.File); ok {
		discardTyped(tty)
	}
	answer, err := c.Ask(question)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.ToLower(answer), err
}
