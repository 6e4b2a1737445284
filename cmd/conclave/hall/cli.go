package hall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"conclave/engine/text"
	"conclave/workflows/drive"
)

// CLI is one invocation of the command: its streams and the common flags.
type CLI struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Address, Namespace, Queue string
	Bucket, Prefix            string
	DataDir                   string
	Config                    string
	WorkerConfig              string // configuration file of the worker in this process; set only by commands with the flag
	JSON, Automation          bool
	Version                   string // version of conclave
}

// Execute adds the common flags to root, executes one command line, and returns its exit code.
func (c *CLI) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	c.configure(root)
	root.SetArgs(append([]string{}, args...)) // Cobra replaces nil by the arguments of the process.
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	root.InitDefaultCompletionCmd(args...) // after the streams are set, because the command stores them
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		ShowFlags(completion)
	}
	return c.report(root.ExecuteContext(ctx))
}

func (c *CLI) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&c.Config, "config", "", "team configuration `FILE` (default ./conclave.yaml if present, else the built-in team of three)")
	f.StringVar(&c.Address, "address", "", "Temporal `HOST:PORT` of a cluster (default from TEMPORAL_ADDRESS or temporal.toml, else the local stack)")
	f.StringVar(&c.Namespace, "namespace", "", "Temporal `NAMESPACE` (default from TEMPORAL_NAMESPACE or temporal.toml, else default)")
	f.StringVar(&c.Queue, "task-queue", drive.TaskQueue, "task queue `NAME`")
	f.StringVar(&c.Bucket, "bucket", "", "S3 `BUCKET` of a cluster's sessions; credentials and endpoint from AWS_*")
	f.StringVar(&c.Prefix, "prefix", "", "key `PREFIX` in the bucket")
	f.StringVar(&c.DataDir, "data-dir", "", "`DIR` of the local stack's files (default $XDG_DATA_HOME/conclave, else ~/.local/share/conclave)")
	f.BoolVar(&c.JSON, "json", false, "print JSON on stdout")
	f.BoolVar(&c.Automation, "automation", false, "no decoration, one line per event, the last line of stdout one JSON object")
}

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

// Warnf is like Infof, but prefixes the line with the name of the command.
func (c *CLI) Warnf(format string, args ...any) { c.Infof("conclave: "+format, args...) }

// CommandLine returns a command line that reaches the same target as this one.
func (c *CLI) CommandLine(command string, args ...string) string {
	words := []string{"conclave " + command}
	for _, a := range args {
		words = append(words, text.ShellQuote(a))
	}
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
	if c.Queue != drive.TaskQueue {
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
