package main

import (
	"github.com/spf13/cobra"

	"conclave/workflows/drive"
)

func (c *cli) finishCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "finish ID",
		Short: "Decide a session now, with what is there",
		Long: `Ask a session, paused or parked ones too, to decide now: running steps are ended,
and the best answer so far wins, by its fresh votes first. Without any answer the
session fails. To end a session without a decision, cancel it.

Without an address, finish joins the local stack; it runs no steps.`,
		Example: `  conclave finish 20261121-153012-k3f9
  conclave finish 20261121-153012-k3f9 && conclave result --wait 20261121-153012-k3f9`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.update(cmd.Context(), args[0], update{
				name: drive.FinishSignal, what: "finish", next: "result --wait",
				done: "decides with what is there; %s prints the answer",
			})
		},
	}
}
