package codec

import (
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/worker/codec"
)

// Command returns `conclave codec`.
func Command(c *hall.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "codec",
		Short: "The encryption of histories: key, serve",
		Long: `Encrypt the payloads that sessions store in Temporal on a cluster. Workers and commands with
` + codec.Variable + ` in their environment encrypt with its first key; those without it
cannot read what is encrypted. docs/security.md has the details.`,
		Example: `  export ` + codec.Variable + `=$(conclave codec key 2026)
  conclave codec serve --web-ui https://temporal.example.com`,
		RunE: hall.Group,
	}
	cmd.AddCommand(keyCommand(c), serveCommand(c))
	return cmd
}

// madeKey is the JSON output of `codec key`.
type madeKey struct {
	ID    string `json:"id"`
	Value string `json:"value"` // value of the environment variable
}

func keyCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "key [ID]",
		Short: "Make a key for " + codec.Variable,
		Long: `Make a key and print it in the format of ` + codec.Variable + `. The ID, by default today's date, is
stored with every payload, so that the right one of several keys is found.

The first key encrypts, and all of them decrypt. To change the key, give every worker and
client OLD,NEW, so that all of them can read the new key's payloads, and only then NEW,OLD.
Remove the old key after the retention period of the namespace. Payloads encrypted with a
lost key stay unreadable.`,
		Example: `  conclave codec key
  export ` + codec.Variable + `="$` + codec.Variable + `,$(conclave codec key 2027)"
  kubectl create secret generic conclave-payload --from-literal=key="$(conclave codec key)"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			id := time.Now().UTC().Format(time.DateOnly)
			if len(args) > 0 {
				id = args[0]
			}
			value, err := codec.NewKey(id)
			if err != nil {
				return err
			}
			if c.Scripted() {
				return c.PrintJSON(madeKey{id, value})
			}
			return c.Print(value + "\n")
		},
	}
}
