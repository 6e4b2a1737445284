//go:build linux

package teams

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/config"
)

// The flags of init answer what it asks on a terminal. The file is trusted, and has the comments of the
// starter file.
func TestInit_flags(t *testing.T) {
	s := newShell(t)
	code, stdout, stderr := s.Run("config", "init", "--model", "anthropic:claude,ollama:llama3.2:3b", "--files=false", "--shell")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "conclave.yaml written; check it with `conclave config validate conclave.yaml`\n", stdout)
	written, _, content, err := readTeam(ProjectFile, config.Local)
	require.NoError(t, err)
	want := config.TeamOf([]config.Backend{{Type: "anthropic", Model: "claude"}, {Type: "ollama", Model: "llama3.2:3b"}})
	for i := range want.Agents {
		want.Agents[i].Tools.Files, want.Agents[i].Tools.Shell = false, config.ShellOn
	}
	require.Equal(t, want, written)
	require.Contains(t, string(content), "# How the team comes to a decision.")
	require.True(t, IsTrusted(file(ProjectFile, string(content))))

	code, _, stderr = s.Run("config", "init", "--model", "gpt: 1\"", "--agents", "26", "other.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	written, _, _, err = readTeam("other.yaml", config.Local)
	require.NoError(t, err)
	require.Len(t, written.Agents, 26)
	require.Equal(t, config.Backend{Type: config.OpenAI, Model: `gpt: 1"`}, written.Agents[25].Backend)

	for _, tt := range []struct {
		says string
		args []string
	}{
		{"other.yaml: it exists already and is left alone", []string{"other.yaml"}},
		{"--agents is the size of a team of one model", []string{"--agents", "2", "third.yaml"}},
		{"a team has 1 to 26 members", []string{"--model", "m", "--agents", "27", "third.yaml"}},
		{`--model: "" names no model`, []string{"--model", "a,", "third.yaml"}},
	} {
		code, _, stderr = s.Run(append([]string{"config", "init"}, tt.args...)...)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, tt.says)
	}
	require.NoFileExists(t, "third.yaml")
}

// A person chooses services, models from their lists, and tools.
func TestInit_asks(t *testing.T) {
	s := newShell(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[`)
		for i := range maxOffered + 1 {
			fmt.Fprintf(w, `{"id":"model-%d"},`, i)
		}
		fmt.Fprint(w, `{"id":"last"}]}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("OPENAI_BASE_URL", server.URL+"/v1")
	term := stage.NewTerminal(t)
	ask := func() (done chan int) {
		done = make(chan int)
		go func() {
			c := &cli.CLI{Stdin: term.TTY, Stdout: term.TTY, Stderr: term.TTY}
			root := &cobra.Command{Use: "conclave"}
			root.AddCommand(Command(c))
			done <- c.Execute(t.Context(), root, []string{"config", "init"})
		}()
		return done
	}

	done := ask()
	term.Type("] ", "\x04")
	require.Equal(t, cli.ExitUsage, <-done)
	_, err := os.Lstat(ProjectFile)
	require.ErrorIs(t, err, fs.ErrNotExist, "an end of the input writes nothing")

	done = ask()
	const question = "Numbers or names, with commas "
	term.Type("] ", "opnai\n")
	term.Type("] ", "1, groq\n")
	term.Type("  30  model-29\n      and 2 more\n"+question, "\n")
	term.Type("\"\" is not in the list\n"+question, "2,last, beyond\n")
	term.Type("which is not set for this worker\nModels of groq:\n"+question, "llama-70b\n")
	term.Type(question+"[files,shell] ", "\n")
	require.Equal(t, cli.ExitOK, <-done)
	written, _, content, err := readTeam(ProjectFile, config.Local)
	require.NoError(t, err)
	want := config.TeamOf([]config.Backend{
		{Type: config.OpenAI, Model: "model-1"}, {Type: config.OpenAI, Model: "last"}, {Type: config.OpenAI, Model: "beyond"}, {Type: "groq", Model: "llama-70b"},
	})
	for i := range want.Agents {
		want.Agents[i].Tools.Shell = config.AutoShell
	}
	require.Equal(t, want, written)
	require.True(t, IsTrusted(file(ProjectFile, string(content))))

	require.NoError(t, os.Remove(ProjectFile))
	done = ask()
	term.Type("] ", "openai\n")
	term.Type(question, "last\n")
	term.Type("How many agents? [3] ", "27\n")
	term.Type("27\nHow many agents? [3] ", "5\n")
	term.Type("[files,shell] ", "none\n")
	require.Equal(t, cli.ExitOK, <-done)
	written, _, _, err = readTeam(ProjectFile, config.Local)
	require.NoError(t, err)
	require.Len(t, written.Agents, 5)
	require.False(t, written.Agents[4].Tools.Files)
	s.StartedNothing()
}
