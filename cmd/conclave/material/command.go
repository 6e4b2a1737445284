package material

import (
	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/engine/base"
)

// uploaded is the JSON output of upload.
type uploaded struct {
	Reference string `json:"reference"`
	base.Uploaded
}

// Command returns `conclave upload`.
func Command(c *hall.CLI) *cobra.Command {
	var secrets bool
	cmd := &cobra.Command{
		Use:   "upload DIR",
		Short: "Store DIR as a base or context and print its reference",
		Long: `Store the files of a directory as a base or a context of sessions, and print its
reference, sha256:…, for the input of workflows that other clients start.

.gitignore files count as in git, where they do not concern tracked files, and
.conclaveignore files after them, for all files; .git never travels, in no spelling. Links stay links; those that lead out of the directory, sockets, devices and
unreadable files are named and left out, as are files with secrets: usual names (.env,
prod.env, kubeconfig, *.tfstate), private keys, tokens, passwords in addresses.
At most 100,000 files, 2 GiB together and 100 MB each are accepted.

Unchanged files are not read again, and contents that the store has are not sent
again. Without an address the local data directory stores the files; for a
cluster, name its bucket with --bucket. After a day, prune removes files that no
session uses.`,
		Example: `  conclave upload .
  conclave upload ~/src/service --json | jq -r .reference
  conclave upload docs --bucket sessions --prefix team-a
  temporal workflow start --task-queue conclave --type Session --workflow-id s1 \
    --input "{\"query\":\"Mend the tests\",\"base\":\"$(conclave upload . --bucket sessions)\"}"`,
		Args: hall.Arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckDirectory(args[0]); err != nil {
				return err
			}
			conn, err := c.ConnectStore(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			done, err := Upload(cmd.Context(), c, conn.Store, args[0], secrets)
			if err != nil {
				return err
			}
			return printUploaded(c, done)
		},
	}
	cmd.Flags().BoolVar(&secrets, "include-secrets", false, "include .env, private keys and other files with secrets")
	return cmd
}

func printUploaded(c *hall.CLI, done base.Uploaded) error {
	reference := base.Reference(done.Hash)
	if !c.Scripted() {
		return c.Print(reference + "\n")
	}
	done.Secrets = append([]string{}, done.Secrets...) // the JSON list is never null
	done.LeftOut = append([]artifact.Warning{}, done.LeftOut...)
	return c.PrintJSON(uploaded{reference, done})
}
