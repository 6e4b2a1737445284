package main

import (
	"github.com/spf13/cobra"

	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

func (c *cli) retryCommand() *cobra.Command {
	agent := ""
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Run failed steps again",
		Long: `Run the failed step of every agent that has one again, or of one agent with
--agent. The session must be open, parked or not; what the step had paid for is
kept. Of a parked run of a pipeline, the step that failed is run again.

Without an address, retry joins the local stack; it runs no steps itself.`,
		Example: `  conclave retry 20261121-153012-k3f9
  conclave retry 20261121-153012-k3f9 --agent agent_b`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.update(cmd.Context(), args[0], update{
				name: drive.RetrySignal, what: "retry failed steps of", payload: sessionflow.RetryInput{Agent: agent}, agent: agent, next: "watch", steps: true,
				done: "tries again; %s follows it",
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "retry only the agent `ID`")
	return cmd
}
