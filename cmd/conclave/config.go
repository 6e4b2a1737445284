package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"conclave/engine/config"
)

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Team configuration: init, validate, schema",
		Long:  "Write a commented starter file, check files, or print the JSON Schema of team configurations.",
		Example: `  conclave config init
  conclave config validate conclave.yaml
  conclave config schema > conclave.schema.json`,
		RunE: onlyGroups,
	}
	// Cobra offers suggestions at this distance only where it finds the mistake itself.
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(
		&cobra.Command{
			Use:   "init [FILE]",
			Short: "Write a commented starter file",
			Long:  "Write a commented starter file, ./" + projectFile + " unless FILE is given. A file that exists is left alone.",
			Example: `  conclave config init
  conclave config init team.yaml`,
			Args: cobra.MaximumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return c.configInit(args) },
		},
		&cobra.Command{
			Use:   "validate [FILE...]",
			Short: "Check team configurations",
			Long: "Check files, ./" + projectFile + " unless any is given, as `run` would, without starting anything. " +
				"All problems of all files are printed.",
			Example: `  conclave config validate
  conclave config validate conclave.yaml teams/*.yaml`,
			RunE: func(_ *cobra.Command, args []string) error { return c.configValidate(args) },
		},
		&cobra.Command{
			Use:     "schema",
			Short:   "Print the JSON Schema",
			Long:    "Print the JSON Schema of team configurations, for editors and other programs.",
			Example: "  conclave config schema > conclave.schema.json",
			Args:    arguments(),
			RunE:    func(*cobra.Command, []string) error { return c.configSchema() },
		},
	)
	return cmd
}

func (c *cli) configInit(args []string) error {
	file := projectFile
	if len(args) > 0 {
		file = args[0]
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write a starter file to %s: it exists already and is left alone; name another FILE, or remove it", file)
	}
	if err != nil {
		return fmt.Errorf("write a starter file: %w", err)
	}
	_, err = f.Write(config.Starter())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write a starter file: %w", err)
	}
	if !c.people() {
		return c.printJSON(map[string]string{"file": file})
	}
	_, err = fmt.Fprintf(c.stdout, "%s written; check it with `conclave config validate %s`\n", file, shellQuote(file))
	return err
}

// checked is the verdict on one file.
type checked struct {
	File     string    `json:"file"`
	Valid    bool      `json:"valid"`
	Problems []problem `json:"problems"`
}

// problem is one thing wrong with a file; Line is 0 if it is not in its text.
type problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

func (c *cli) configValidate(files []string) error {
	if len(files) == 0 {
		files = []string{projectFile}
	}
	verdicts, code := make([]checked, 0, len(files)), exitDone
	for _, file := range files {
		_, _, err := readTeam(file, config.Local)
		verdicts = append(verdicts, checked{File: file, Valid: err == nil, Problems: problemsOf(err)})
		if err != nil {
			code = exitUsage
		}
		switch {
		case !c.people():
		case err != nil:
			c.say("%v", err)
		default:
			if _, err := fmt.Fprintf(c.stdout, "%s: OK\n", file); err != nil {
				return err
			}
		}
	}
	if !c.people() {
		if err := c.printJSON(verdicts); err != nil {
			return err
		}
	}
	return silent(code)
}

func problemsOf(err error) []problem {
	list := []problem{}
	var found config.Problems
	switch {
	case errors.As(err, &found):
		for _, p := range found {
			list = append(list, problem{Line: p.Line, Column: p.Column, Key: p.Key, Message: p.Message})
		}
	case err != nil:
		list = append(list, problem{Message: err.Error()})
	}
	return list
}

func (c *cli) configSchema() error {
	schema, err := config.Schema()
	if err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}
	_, err = fmt.Fprintln(c.stdout, string(schema))
	return err
}
