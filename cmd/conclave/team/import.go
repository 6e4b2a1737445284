package team

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"conclave/cmd/conclave/hall"
	"conclave/engine/massgen"
	"conclave/engine/text"
)

func importCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Translate a team configuration of MassGen",
		Long: "Translate a team configuration of MassGen, in YAML or JSON. The team goes to standard output; standard error has a sentence " +
			"for every key that was moved, changed or left out. Backends become types or addresses of the Chat Completions API, MCP servers " +
			"move to their agents, and IDs become legal. Nothing is started, and no variable is read.",
		Example: `  conclave config import massgen.yaml > conclave.yaml
  conclave config import massgen.yaml > conclave.yaml && conclave run "your question"
  conclave config import --json massgen.yaml | jq .notes`,
		Args: hall.Arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return translate(c, args[0]) },
	}
}

// hintAtImport adds the command that translates a file to the file's error if it looks
// like a MassGen configuration.
func hintAtImport(err error, file string, data []byte) error {
	if err == nil || !massgen.Recognize(data) {
		return err
	}
	to := "conclave.yaml"
	if filepath.Base(file) == to {
		to = "team.yaml" // the shell would empty the file before it is read
	}
	return fmt.Errorf("%w\n%s looks like a configuration of MassGen; `conclave config import %s > %s` translates it", err, file, text.ShellQuote(file), to)
}

// imported is the output of `config import --json`.
type imported struct {
	File  string         `json:"file"`
	Team  any            `json:"team"`
	Notes []massgen.Note `json:"notes"` // empty, not null, without any
}

func translate(c *hall.CLI, file string) error {
	data, err := ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the configuration to translate: %w", err)
	}
	t, err := massgen.Import("the translation", data)
	if err != nil {
		return fmt.Errorf("translate %s: %w", file, err)
	}
	if err := printTranslation(c, file, t); err != nil {
		return err
	}
	if t.Invalid != nil {
		return fmt.Errorf("the translation of %s was printed and still needs changes:\n%w", file, t.Invalid)
	}
	return nil
}

func printTranslation(c *hall.CLI, file string, t massgen.Translation) error {
	if c.Scripted() {
		var team any
		if err := yaml.Load(t.YAML, &team); err != nil {
			return fmt.Errorf("read the translation of %s: %w", file, err)
		}
		return c.PrintJSON(imported{File: file, Team: team, Notes: append([]massgen.Note{}, t.Notes...)})
	}
	for _, n := range t.Notes {
		where := file
		if n.Line > 0 {
			where = fmt.Sprintf("%s:%d", file, n.Line)
		}
		c.Infof("%s: %s", where, n)
	}
	_, err := fmt.Fprintf(c.Stdout, "# Translated from %q, a configuration of MassGen.\n%s", file, t.YAML)
	return err
}
