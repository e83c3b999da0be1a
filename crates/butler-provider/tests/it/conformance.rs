//! The suite finds a provider that keeps the contract good, and names what another breaks.

use butler_provider::{
    AddressSource, Capabilities,
    conformance::{self, Outcome},
    fake::{CAPABILITIES, Defect},
};
use pretty_assertions::assert_eq;

use crate::fake_subject::FakeSubject;

#[tokio::test]
async fn a_provider_that_keeps_the_contract_passes_every_case() {
    let report = conformance::run(FakeSubject::new([])).await;
    let passed = |case: &&conformance::CaseReport| case.outcome == Outcome::Passed;
    let passed = report.cases.iter().filter(passed).count();
    assert_eq!((passed, report.cases.len()), (21, 21), "{report}");
}

#[tokio::test]
async fn what_a_provider_does_not_have_is_skipped_with_the_reason() {
    let capabilities = Capabilities {
        addresses: AddressSource::Infrastructure,
        user_data_later: false,
        load_balancers: false,
        ..CAPABILITIES
    };
    let report = conformance::run(FakeSubject::with(capabilities)).await;
    assert!(report.passed(), "{report}");
    let words = report.to_string();
    assert!(
        words.contains(
            "SKIP machine_has_the_address_ordered: the infrastructure gives out addresses"
        ),
        "{words}"
    );
    assert_eq!(words.matches("SKIP").count(), 8, "{words}");
}

#[tokio::test]
async fn each_broken_rule_is_named() {
    let expected: &[(Defect, &[&str])] = &[
        (
            Defect::MakesTwo,
            &[
                "create_again_makes_nothing_new",
                "two_creates_at_once_make_one",
                "machine_that_is_there_is_adopted",
            ],
        ),
        (
            Defect::RacesWithItself,
            &[
                "two_creates_at_once_make_one",
                "create_after_delete_makes_nothing",
                "machine_that_is_there_is_adopted",
            ],
        ),
        (
            Defect::ForgetsOnRestart,
            &["machine_is_found_after_a_restart"],
        ),
        (
            Defect::KeepsWhatItDeletes,
            &[
                "deleted_machine_is_gone",
                "create_after_delete_makes_nothing",
                "machine_that_is_there_is_adopted",
                "twenty_machines_at_once_and_none_left",
            ],
        ),
        (
            Defect::RefusesToDeleteNothing,
            &[
                "delete_twice_is_well",
                "delete_of_what_never_was_is_well",
                "create_after_delete_makes_nothing",
            ],
        ),
        (
            Defect::MakesAfterDeletion,
            &["create_after_delete_makes_nothing"],
        ),
        (
            Defect::LosesUserData,
            &[
                "user_data_reaches_the_machine",
                "user_data_reaches_a_machine_made_without",
            ],
        ),
        (Defect::IgnoresSizes, &["machine_has_the_size_ordered"]),
        (
            Defect::IgnoresAddresses,
            &["machine_has_the_address_ordered"],
        ),
        (Defect::HasNoLimit, &["too_large_a_machine_is_refused"]),
        (
            Defect::PanicsWhenTooLarge,
            &["too_large_a_machine_is_refused"],
        ),
        (
            Defect::AcceptsAnyCredentials,
            &["wrong_credentials_are_refused"],
        ),
        (
            Defect::MisclassesCredentials,
            &["wrong_credentials_are_refused"],
        ),
        (
            Defect::MakesInsteadOfAdopting,
            &["machine_that_is_there_is_adopted"],
        ),
        (
            Defect::MakesTwoLoadBalancers,
            &["load_balancer_is_made_once", "targets_follow_the_order"],
        ),
        (
            Defect::WantsTargetsFirst,
            &[
                "load_balancer_has_an_endpoint_without_targets",
                "targets_follow_the_order",
            ],
        ),
        (Defect::KeepsTargets, &["targets_follow_the_order"]),
        (
            Defect::KeepsLoadBalancers,
            &["deleted_load_balancer_is_gone"],
        ),
    ];
    let examined = expected.iter().map(|(defect, cases)| async move {
        let report = conformance::run(FakeSubject::new([*defect])).await;
        assert_eq!(report.failures(), *cases, "{defect:?}\n{report}");
    });
    futures::future::join_all(examined).await;
}
