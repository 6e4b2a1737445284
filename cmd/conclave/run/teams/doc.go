// Package teams reads team configurations and resolves their models and keys.
//
//   - team.go reads a team, or makes it of --model, resolves it, keeps the registered teams of
//     a data directory, and translates configurations of MassGen.
//   - consent.go stores the user's consent to configurations that a command found, for example in
//     a cloned repository, rather than was given by name: by a hash of their place, their bytes
//     and the files that their programs name. demands.go lists the settings that need consent.
//   - worker.go starts the worker of this process and reads --worker-config.
//   - keys.go finds keys, in the environment and in .env, and local servers.
//   - command.go and init.go implement `conclave config`.
//
// Start with Load in team.go, then TrustDemands in demands.go.
package teams
