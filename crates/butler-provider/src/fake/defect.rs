//! How the infrastructure in memory can be made to misbehave.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// Each call makes another machine.
    MakesTwo,
    /// Two calls at once make two.
    RacesWithItself,
    /// Finds only what the same process made.
    ForgetsOnRestart,
    /// Says that a machine is gone, and keeps it.
    KeepsWhatItDeletes,
    /// Will not delete what is not there.
    RefusesToDeleteNothing,
    /// Makes a machine for a UID whose machine was deleted.
    MakesAfterDeletion,
    /// Loses user data.
    LosesUserData,
    /// Makes all machines of one size.
    IgnoresSizes,
    /// Gives a machine another address than was ordered.
    IgnoresAddresses,
    /// Makes a machine of any size.
    HasNoLimit,
    /// Panics when asked for too much.
    PanicsWhenTooLarge,
    /// Lets everybody in.
    AcceptsAnyCredentials,
    /// Calls refused credentials a passing error.
    MisclassesCredentials,
    /// Makes a machine although another is to be adopted.
    MakesInsteadOfAdopting,
    /// Each call makes another load balancer.
    MakesTwoLoadBalancers,
    /// A load balancer gets its endpoint with its first target.
    WantsTargetsFirst,
    /// Targets that are not wanted any more stay.
    KeepsTargets,
    /// Says that a load balancer is gone, and keeps it.
    KeepsLoadBalancers,
}

/// A kind of call, to have the next ones fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Looking at machines.
    ObserveMachine,
    /// Making machines.
    CreateMachine,
    /// Deleting machines.
    DeleteMachine,
    /// Handing user data over.
    DeliverUserData,
    /// Looking at load balancers.
    ObserveLoadBalancer,
    /// Making load balancers.
    EnsureLoadBalancer,
    /// Deleting load balancers.
    DeleteLoadBalancer,
}
