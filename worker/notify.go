package worker

import (
	"fmt"
	"os"
	"slices"

	"conclave/activities"
	"conclave/engine/config"
)

// checkReceivers reports receivers of notices that cannot be told anything.
func checkReceivers(c *config.Decoder, receivers []activities.Receiver) {
	const example = "it takes the name of the worker's environment variable that holds the %s, such as %s"
	var names []string
	for i, r := range receivers {
		key := fmt.Sprintf("notify[%d]", i)
		switch {
		case r.URLEnv == "":
			c.Report(key+".url_env", "missing; "+example, "address", "NOTIFY_URL")
		case slices.Contains(names, r.URLEnv):
			c.Report(key+".url_env", "the receiver is listed twice; list its events once")
		default:
			c.Variable(key+".url_env", r.URLEnv, fmt.Sprintf(example, "address", "NOTIFY_URL"))
		}
		names = append(names, r.URLEnv)
		if r.SecretEnv != "" {
			c.Variable(key+".secret_env", r.SecretEnv, fmt.Sprintf(example, "secret", "NOTIFY_SECRET"))
		}
		for j, event := range r.Events {
			if !slices.Contains(activities.NoticeTypes(), event) {
				c.Name(fmt.Sprintf("%s.events[%d]", key, j), event, "an event", activities.NoticeTypes())
			}
		}
	}
}

// missingReceivers returns a sentence for each receiver whose variables are not set.
func missingReceivers(receivers []activities.Receiver) (missing []string) {
	for _, r := range receivers {
		for _, variable := range []string{r.URLEnv, r.SecretEnv} {
			if variable != "" && os.Getenv(variable) == "" {
				missing = append(missing, fmt.Sprintf("the environment variable %s is not set; what the receiver of %s is to be told waits for a worker that has it", variable, r.URLEnv))
			}
		}
	}
	return missing
}

// receiverSecrets returns the addresses and secrets of the receivers, for redaction.
func receiverSecrets(receivers []activities.Receiver) (secrets []string) {
	for _, r := range receivers {
		for _, variable := range []string{r.URLEnv, r.SecretEnv} {
			if value := os.Getenv(variable); value != "" {
				secrets = append(secrets, value)
			}
		}
	}
	return secrets
}
