package teams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/text"
)

func initCommand(c *cli.CLI) *cobra.Command {
	o := starterOptions{files: true, shell: config.AutoShell}
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented starter file",
		Long: `Write a commented starter file, ./` + ProjectFile + ` unless FILE is given. A file that exists is left alone.

On a terminal it asks for the services, for their models, which it lists, and for the tools
of the agents. The flags answer the same without a question; without them and without a
terminal the file has the built-in team.`,
		Example: `  conclave config init
  conclave config init --model anthropic:claude-sonnet-4-5,ollama:llama3.2:3b --shell
  conclave config init team.yaml --model gpt-5.2 --agents 5`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = append(args, ProjectFile)[0]
			o.given = cmd.Flags().Changed("files") || cmd.Flags().Changed("shell")
			return writeStarter(cmd.Context(), c, o)
		},
	}
	ModelFlags(c, cmd.Flags())
	cmd.Flags().BoolVar(&o.files, "files", true, "the agents read and write files in their workspaces")
	cmd.Flags().BoolFunc("shell", "the agents run commands there, in a sandbox (default: where this machine has one)", func(value string) error {
		o.shell = config.Shell(value)
		return nil
	})
	return cmd
}

// starterOptions are the answers that a starter file needs besides its models.
type starterOptions struct {
	file  string
	files bool
	shell config.Shell
	given bool // one of them is given by a flag
}

func writeStarter(ctx context.Context, c *cli.CLI, o starterOptions) error {
	if _, err := os.Lstat(o.file); err == nil {
		return fmt.Errorf("write a starter file to %s: it exists already and is left alone; name another FILE, or remove it", o.file)
	}
	if err := CheckFlags(c, ""); err != nil {
		return err
	}
	if len(c.Models) == 0 && !o.given && c.CanConfirm() {
		if err := o.askAll(ctx, c); err != nil {
			return fmt.Errorf("write a starter file: %w; nothing was written", err)
		}
	}
	team, _, err := buildTeam(c, (&Worker{}).Models, config.Local)
	if err != nil {
		return err
	}
	for i := range team.Agents {
		team.Agents[i].Tools.Files, team.Agents[i].Tools.Shell = o.files, o.shell
	}
	if len(c.Models) == 0 && !o.given {
		team.Agents = nil // the commented ones
	}
	content := config.Starter(team.Agents)
	f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("write a starter file: %w", err)
	}
	if _, err := RememberTrust(TrustedFile{Name: o.file, Content: content}); err != nil {
		c.Warnf("%v; `conclave config trust %s` does it again", err, text.ShellQuote(o.file))
	}
	if c.Scripted() {
		return c.PrintJSON(map[string]string{"file": o.file})
	}
	_, err = fmt.Fprintf(c.Stdout, "%s written; check it with `conclave config validate %s`\n", o.file, text.ShellQuote(o.file))
	return err
}

// maxOffered is the number of models that a question lists; other names are accepted, too.
const maxOffered = 30

// askAll asks for the models and the tools of a team, and sets them as the flags would.
func (o *starterOptions) askAll(ctx context.Context, c *cli.CLI) error {
	w, kinds := &Worker{}, config.ListedTypes()
	if err := w.FindKeys(c, OfKinds(kinds)); err != nil {
		return err
	}
	found := text.Each(w.Reachable(ctx), func(s Reachable) string { return s.Kind })
	options := append(slices.Clone(found), slices.DeleteFunc(kinds, func(k string) bool { return slices.Contains(found, k) })...)
	chosen, err := askChoice(c, "Services and local servers, first those whose key is set or that answer:", options, cmp.Or(strings.Join(found, ","), config.OpenAI), false)
	for _, kind := range chosen {
		if err != nil {
			break
		}
		listed, unlisted := w.Models.List(ctx, kind)
		if unlisted != nil {
			c.Infof("%v", unlisted)
		}
		var names, named []string
		for _, l := range listed {
			names = append(names, l.ID)
		}
		named, err = askChoice(c, "Models of "+kind+":", names, "", true)
		c.Models = append(c.Models, text.Each(named, func(name string) string { return kind + ":" + name })...)
	}
	for err == nil && len(c.Models) == 1 && (c.Agents < 1 || c.Agents > config.MaxAgents) {
		var answer string
		answer, err = c.Ask("How many agents? [3]")
		c.Agents, _ = strconv.Atoi(cmp.Or(answer, "3"))
	}
	if err != nil {
		return err
	}
	tools, err := askChoice(c, "Tools of the agents in their workspaces (shell: commands, in a sandbox):", []string{"files", "shell", "none"}, "files,shell", false)
	if o.files = slices.Contains(tools, "files"); !slices.Contains(tools, "shell") {
		o.shell = config.ShellOff
	}
	return err
}

// askChoice asks for some of the options, by numbers or names, until the answer is valid. With free it
// accepts other names.
func askChoice(c *cli.CLI, title string, options []string, usual string, free bool) ([]string, error) {
	c.Infof("%s", title)
	for i, option := range options[:min(len(options), maxOffered)] {
		c.Infof("%4d  %s", i+1, option)
	}
	if more := len(options) - maxOffered; more > 0 {
		c.Infof("      and %d more", more)
	}
	question := "Numbers or names, with commas"
	if usual != "" {
		question += " [" + usual + "]"
	}
	for {
		answer, err := c.Ask(question)
		if err != nil {
			return nil, err
		}
		var chosen []string
		for word := range strings.SplitSeq(cmp.Or(answer, usual), ",") {
			word = strings.TrimSpace(word)
			if n, err := strconv.Atoi(word); err == nil && 1 <= n && n <= len(options) {
				word = options[n-1]
			}
			chosen = append(chosen, word)
		}
		unknown := slices.IndexFunc(chosen, func(word string) bool { return word == "" || !free && !slices.Contains(options, word) })
		if unknown < 0 {
			return slices.Compact(chosen), nil
		}
		c.Infof("%q is not in the list", chosen[unknown])
	}
}
