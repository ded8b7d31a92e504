//! Notices are written with the end of an effect, in every store alike, and with no other change.

use servanda_contract::Timestamp;
use servanda_effects::{
    Note, NoteKind,
    effect::{
        Claim, DispatchEnd, EffectChange, EffectEnding, EffectEvent, EffectQuery, EffectState, EffectTarget,
        EffectWaitReason, ManualSettlement, Notice,
    },
};

use super::{
    effects::apply,
    kept::Kept,
    samples::{answer, begin, begun, mine, settled},
};

pub(super) async fn notices(kept: Kept) {
    let (effects, now) = (&*kept.effects, Timestamp::from_unix_ms(1_000));
    let telling = |change: EffectChange, call: &str| {
        let notice = |(ending, word): (EffectEnding, &str)| {
            let key = format!("{call} {word}");
            Notice { ending, note: Note { kind: NoteKind::Delivery, key, value: "\"x\"".to_owned(), expires_at: None } }
        };
        let ends = [
            (EffectEnding::Completed, "completed"),
            (EffectEnding::Failed, "failed"),
            (EffectEnding::Unknown, "unknown"),
        ];
        EffectChange { notices: ends.map(notice).to_vec(), ..change }
    };
    let told = async || {
        let notes = kept.notebook().list(NoteKind::Delivery, "", 100, now).await.unwrap();
        notes.into_iter().map(|note| note.key).collect::<Vec<String>>()
    };
    let ends = [
        ("a", DispatchEnd::Completed(answer("x")), "a completed"),
        ("b", DispatchEnd::Failed(answer("x")), "b failed"),
        ("c", DispatchEnd::NotExecuted("refused".to_owned()), "c failed"),
        ("d", DispatchEnd::Unknown("reset".to_owned()), "d unknown"),
    ];
    let mut expected = Vec::new();
    for (name, end, key) in ends {
        let claim = mine(apply(effects, telling(begun(begin(name)), name)).await.reply);
        let old = Claim { epoch: 0, ..claim.clone() };
        apply(effects, telling(settled(&old, DispatchEnd::Unknown("late".to_owned())), "stale")).await;
        let waits = DispatchEnd::Awaits(EffectWaitReason::Task("t".to_owned()), u64::MAX >> 1);
        apply(effects, telling(settled(&claim, waits), "waiting")).await;
        assert_eq!(told().await, expected, "an effect that has not ended writes no notice");
        apply(effects, telling(settled(&claim, end), name)).await;
        expected.push(key.to_owned());
        assert_eq!(told().await, expected);
        apply(effects, telling(begun(begin("a")), "replayed")).await;
    }
    let by_hand =
        ManualSettlement { epoch: None, completed: true, by: "ada".to_owned(), evidence: "the list".to_owned() };
    let unknown = effects
        .list(EffectQuery { states: vec![EffectState::OutcomeUnknown], limit: 1, ..EffectQuery::default() })
        .await
        .unwrap();
    let target = EffectTarget::Id(unknown[0].id.clone());
    let event = EffectEvent::SettleByHand(by_hand);
    let change = EffectChange::new(target, event);
    apply(effects, telling(change, "d")).await;
    expected.insert(3, "d completed".to_owned());
    assert_eq!(told().await, expected, "settling by a person writes a notice too");
}
