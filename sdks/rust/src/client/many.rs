//! Submissions of many runs at once.
//!
//! A list goes in as few calls as the coordinator's limits allow. Each run is accepted or refused for itself, so a list is
//! never half hidden behind one error: what the coordinator took before a call failed is told.

use serde::Serialize;
use wire::Code;
use wire::answers::{Problem, SubmitResult, SubmitResults};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::SubmitRun;

use super::submissions::{BATCH_BYTES_MAX, size};
use super::{Client, generate_key};
use crate::worker::clock::wall_clock;
use crate::{Error, NewRun, RunHandle};

impl Client {
    /// Submits any number of runs, up to 1,000 in one call. Each is accepted or refused for itself, in the order given. The
    /// call itself fails only if nothing was submitted: an input has no JSON form, or the first call got no answer. If a later
    /// one gets none, its runs and those behind it have that error.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::{Kind, NewRun};
    ///
    /// const RENDER: Kind<u32, String> = Kind::new("render").queue("pages");
    /// for submitted in client.submit_many((1..=3).map(|page| NewRun::new(RENDER, &page))).await? {
    ///     println!("{}", submitted?.id());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn submit_many<O>(
        &self,
        runs: impl IntoIterator<Item = NewRun<O>>,
    ) -> Result<Vec<Result<RunHandle<O>, Error>>, Error> {
        let runs = runs
            .into_iter()
            .map(|run| self.with_key(run))
            .collect::<Result<Vec<SubmitRun>, Error>>()?;
        let mut submitted = Vec::with_capacity(runs.len());
        let mut rest = &runs[..];
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(part_of(rest));
            match self.submit_part(part).await {
                Ok(results) => submitted.extend(results.into_iter().map(|it| self.submitted(it))),
                Err(error) if submitted.is_empty() => return Err(error),
                Err(error) => {
                    submitted.extend(rest.iter().map(|_| Err(error.duplicate())));
                    return Ok(submitted);
                }
            }
            rest = behind;
        }
        Ok(submitted)
    }

    /// Submits at most 1,000 runs in one call, and returns the server's answer for each: whether it existed before, or why it
    /// was refused.
    pub async fn accept_many<O>(
        &self,
        runs: impl IntoIterator<Item = NewRun<O>>,
    ) -> Result<Vec<SubmitResult>, Error> {
        let runs = runs
            .into_iter()
            .map(|run| self.with_key(run))
            .collect::<Result<Vec<SubmitRun>, Error>>()?;
        self.accept_all(runs.iter()).await
    }

    pub(super) async fn accept_all<'a>(
        &self,
        runs: impl Iterator<Item = &'a SubmitRun>,
    ) -> Result<Vec<SubmitResult>, Error> {
        #[derive(Serialize)]
        struct Batch<'a> {
            runs: Vec<&'a SubmitRun>,
        }
        let batch = Batch { runs: runs.collect() };
        let answer: SubmitResults = self.post_json(&["v1", "runs"], &batch).await?;
        Ok(answer.results)
    }

    /// One answer for each run, in order: another number of them answers no run in particular.
    async fn submit_part(&self, part: &[SubmitRun]) -> Result<Vec<SubmitResult>, Error> {
        let results = self.accept_all(part.iter()).await?;
        if results.len() != part.len() {
            let why = format!("{} answers to {} runs", results.len(), part.len());
            let url = self.target.base.to_string();
            return Err(Error::Protocol { url, status: 200, why });
        }
        Ok(results)
    }

    /// In a batch the key is a member of its run.
    fn with_key<O>(&self, run: NewRun<O>) -> Result<SubmitRun, Error> {
        let mut request = run.into_sealed(&self.codec)?;
        if request.idempotency_key.is_none() {
            request.idempotency_key = Some(generate_key()?);
        }
        Ok(request)
    }

    fn submitted<O>(&self, result: SubmitResult) -> Result<RunHandle<O>, Error> {
        match result.run_id {
            Some(id) => Ok(RunHandle::new(self.clone(), id)),
            None => Err(Error::Refused(Box::new(problem_of(result)))),
        }
    }
}

/// How many runs from the beginning go in one call.
fn part_of(runs: &[SubmitRun]) -> usize {
    let mut bytes = 0;
    let fits = |run: &&SubmitRun| {
        bytes += size(run);
        bytes <= BATCH_BYTES_MAX
    };
    runs.iter().take(BATCH_ITEMS_MAX).take_while(fits).count().max(1)
}

/// The refusal of one run, as the coordinator tells the refusal of a call. The code may be newer than this client.
fn problem_of(result: SubmitResult) -> Problem {
    let error = result.error.unwrap_or_default();
    let code = error.parse().unwrap_or(Code::InvalidArgument);
    let mut problem = Problem::new(code, result.message.unwrap_or_default(), wall_clock());
    (problem.error, problem.field) = (error, result.field);
    problem
}

#[cfg(test)]
mod tests {
    use wire::Json;

    use super::*;

    #[test]
    fn a_part_holds_what_one_call_may_carry_and_at_least_one_run() {
        let small = vec![SubmitRun::default(); 2_500];
        assert_eq!(part_of(&small), BATCH_ITEMS_MAX);
        let input = Json::from_value(&"x".repeat(200_000)).unwrap();
        let large = vec![SubmitRun { input, ..SubmitRun::default() }; 5];
        assert_eq!(part_of(&large), 2);
        let input = Json::from_value(&"x".repeat(2 * BATCH_BYTES_MAX)).unwrap();
        assert_eq!(part_of(&[SubmitRun { input, ..SubmitRun::default() }]), 1);
    }
}
